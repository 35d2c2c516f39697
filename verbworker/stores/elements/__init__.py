"""What is known about the elements of deployed models, for their pictures. It knows no runbook rule and no engine."""

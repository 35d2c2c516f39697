"""verblint keeps BPMN models for Camunda 8 hollow: the engine waits and branches, verbs do the work."""

"""The HTTP ingress: messages from outside, from senders who can prove for which tenant they speak."""

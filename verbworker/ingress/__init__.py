"""The HTTP ingress: accepts messages from senders that can prove which tenant they act for."""

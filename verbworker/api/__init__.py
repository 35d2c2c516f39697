"""The HTTP API: cases and messages for programs that can prove which tenant they act for. It knows no pages."""

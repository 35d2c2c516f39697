"""Tables of messages: the inbox, dead letters, and messages that one case sends to another."""

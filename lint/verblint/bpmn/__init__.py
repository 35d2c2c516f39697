"""BPMN files: bytes to elements to a typed model, with the schemas of BPMN, Zeebe and Ameide."""

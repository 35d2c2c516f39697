-- A tenant's newest cases of one process, for the figures beside its picture. Neither column changes once the entry is there,
-- so that no update of an entry pays for the index.
CREATE INDEX runbook_entry_by_process ON verbworker.runbook_entry (tenant_id, process_id, created_at DESC)
WHERE process_id IS NOT NULL;

"""A case of one tenant with a row in every table that holds rows of tenants, put there by the owner."""

from uuid import UUID

TENANT = "globex"
ENTRY, INSTANCE, TOKEN, LETTER, OWNER = (UUID(f"f0000000-0000-4000-8000-00000000000{number}") for number in range(1, 6))
ENGINE, KEY = "embedded", 7_340_032  # 7 times 2^20, as the embedded engine numbers instances
WORD = "foreign-word"

ROWS = f"""
SET LOCAL session_replication_role = replica;
INSERT INTO verbworker.runbook_entry (
  entry_id, tenant_id, request_key, request_hash, verb, verb_version, mode, sentence, invocation, args, asked_by,
  status, outcome, last_seq, last_hash, process_id, process_version, definition_key, owner, lease_until
) VALUES (
  '{ENTRY}', '{TENANT}', '{WORD}', '\\x01', '{WORD}', '1', 'durable', '{WORD}', '{WORD}', '\\x01', '{WORD}', 'parked',
  convert_to('{WORD}', 'UTF8'), 1, '\\x01', '{WORD}', 1, {KEY}, '{OWNER}', clock_timestamp() - interval '1 hour'
);
INSERT INTO verbworker.runbook_event (entry_id, seq, at, kind, once, detail, status, hash)
VALUES ('{ENTRY}', 1, clock_timestamp(), 'Parked', '{WORD}', '{{"word": "{WORD}"}}', 'parked', '\\x01');
INSERT INTO verbworker.workflow_instance (
  instance_uid, tenant_id, entry_id, verb, verb_version, payload_schema, engine_id, process_id, process_version,
  definition_key, instance_key, correlation, status, created_at
) VALUES (
  '{INSTANCE}', '{TENANT}', '{ENTRY}', '{WORD}', '1', '{WORD}', '{ENGINE}', '{WORD}', 1, {KEY}, {KEY},
  '{{"k": "{WORD}"}}', 'active', clock_timestamp() - interval '1 day'
);
INSERT INTO verbworker.payload_head (instance_uid, version, hash, content)
VALUES ('{INSTANCE}', 1, '\\x01', convert_to('{WORD}', 'UTF8'));
INSERT INTO verbworker.payload_version (instance_uid, hash, version, job_key) VALUES ('{INSTANCE}', '\\x01', 1, {KEY});
INSERT INTO verbworker.job_frame (
  engine_id, job_key, process_instance_key, element_instance_key, verb, tenant_id, instance_uid, process_id,
  process_version, element_id, entry_id, mode, on_unknown, max_runs, idempotency_window, idempotency_key, owner,
  lease_until, activated_ms, retries_left, input_hash, state, fail_class, fail_code, fail_text
) VALUES (
  '{ENGINE}', {KEY}, {KEY}, {KEY}, '{WORD}', '{TENANT}', '{INSTANCE}', '{WORD}', 1, '{WORD}', '{ENTRY}', 'external',
  'hold', 5, '1 day', '{WORD}', '{OWNER}',
  clock_timestamp() - interval '1 hour', 0, 1, '\\x01', 'incident', '{WORD}', '{WORD}',
  '{WORD}'
);
SELECT verbworker.ensure_archive_month(clock_timestamp());
INSERT INTO verbworker.job_frame_archive
SELECT clock_timestamp(), (changed.frame).*
FROM (
  SELECT jsonb_populate_record(frame, jsonb_build_object('job_key', {KEY} + 1, 'acked_at', clock_timestamp())) AS frame
  FROM verbworker.job_frame AS frame
) AS changed;
INSERT INTO verbworker.frame_event (engine_id, job_key, kind, epoch, owner, detail)
VALUES ('{ENGINE}', {KEY}, 'released', 1, '{OWNER}', '{WORD}');
INSERT INTO verbworker.frame_conflict (engine_id, job_key, frame, delivery)
VALUES ('{ENGINE}', {KEY}, '{{"word": "{WORD}"}}', '{{}}');
INSERT INTO verbworker.job_delivery (engine_id, job_key, type, instance_uid, retries, owner, lease_until)
VALUES ('{ENGINE}', {KEY}, '{WORD}', '{INSTANCE}', 1, '{OWNER}', clock_timestamp() - interval '1 hour');
INSERT INTO verbworker.parked_token (
  token_id, tenant_id, entry_id, instance_uid, engine_id, instance_key, element_instance_key, element_id, kind, reason,
  gate, message_name, correlation_key, job_key, opened_at, claimed_by, claimed_at, incident_key, user_task_key
) VALUES (
  '{TOKEN}', '{TENANT}', '{ENTRY}', '{INSTANCE}', '{ENGINE}', {KEY}, {KEY}, '{WORD}', 'human_gate', '{WORD}', '{WORD}',
  '{WORD}', '{WORD}', {KEY}, clock_timestamp() - interval '1 hour', '{WORD}', clock_timestamp(), {KEY}, {KEY}
);
INSERT INTO verbworker.gate_decision (token_id, tenant_id, entry_id, instance_uid, gate, decision, reason, decided_by)
VALUES ('{TOKEN}', '{TENANT}', '{ENTRY}', '{INSTANCE}', '{WORD}', '{WORD}', '{WORD}', '{WORD}');
INSERT INTO verbworker.person (tenant_id, person_id, issuer, subject, name)
VALUES ('{TENANT}', '{OWNER}', '{WORD}', '{WORD}', '{WORD}');
INSERT INTO verbworker.dispatch (instance_uid, entry_id, engine_id, process_id, variables)
VALUES ('{INSTANCE}', '{ENTRY}', '{ENGINE}', '{WORD}', convert_to('{WORD}', 'UTF8'));
INSERT INTO verbworker.inbox_message (
  tenant_id, message_id, message_name, correlation_key, body_hash, payload, entry_id, sent_by, state, instance_uid,
  engine_id, ttl, expires_at, published_at
) VALUES (
  '{TENANT}', '{WORD}', '{WORD}', '{WORD}', '\\x01', convert_to('{WORD}', 'UTF8'), '{ENTRY}', '{WORD}', 'published',
  '{INSTANCE}', '{ENGINE}', '1 hour', clock_timestamp() + interval '1 hour', clock_timestamp()
);
INSERT INTO verbworker.dead_letter (
  letter_id, tenant_id, message_id, message_name, correlation_key, entry_id, code, reason, sent_by
) VALUES ('{LETTER}', '{TENANT}', '{WORD}', '{WORD}', '{WORD}', '{ENTRY}', 'expired', '{WORD}', '{WORD}');
INSERT INTO verbworker.envelope_queue (tenant_id, envelope) VALUES ('{TENANT}', convert_to('{WORD}', 'UTF8'));
INSERT INTO verbworker.compensation_record (
  tenant_id, entry_id, instance_uid, step_seq, verb, undo, element_id, element_instance_key, job_key
) VALUES ('{TENANT}', '{ENTRY}', '{INSTANCE}', 1, '{WORD}', '{WORD}', '{WORD}', {KEY}, {KEY});
INSERT INTO verbworker.stall (entry_id, kind, place, tenant_id, engine_id, since, seq, reason, remedy)
VALUES ('{ENTRY}', 'job', '', '{TENANT}', '{ENGINE}', clock_timestamp() - interval '1 hour', 1, '{WORD}', '{WORD}');
INSERT INTO verbworker.tenant_use (tenant_id, kind, minute, backend, requests, bytes)
VALUES ('{TENANT}', 'starts', date_trunc('minute', clock_timestamp()), 1, 1, 1);
INSERT INTO verbworker.runbook_seal (tenant_id, number, at, lines, lines_hash, previous, hash)
VALUES ('{TENANT}', 1, clock_timestamp(), 1, '\\x01', '', '\\x01');
INSERT INTO verbworker.runbook_seal_line (tenant_id, number, entry_id, seq, hash, dropped)
VALUES ('{TENANT}', 1, '{ENTRY}', 1, '\\x01', false);
INSERT INTO verbworker.step_visit (engine_id, process_instance_key, element_id, element_instance_key, visit)
VALUES ('{ENGINE}', {KEY}, '{WORD}', {KEY}, 1);
INSERT INTO verbworker_engine.identity (engine_id) VALUES ('{ENGINE}') ON CONFLICT DO NOTHING;
INSERT INTO verbworker_engine.instance (
  instance_key, definition_key, process_id, tenant_id, start_key, variables, state, created_at
) VALUES (
  {KEY}, {KEY}, '{WORD}', '{TENANT}', '{WORD}', convert_to('{WORD}', 'UTF8'),
  convert_to(json_build_object('word', '{WORD}', 'tokens', json_build_array())::text, 'UTF8'), clock_timestamp());
INSERT INTO verbworker_engine.token_history (instance_key, revision, tokens, ended_at)
VALUES ({KEY}, 1, convert_to(json_build_array(json_build_array(1, '{WORD}', 0, 4, 1, 1))::text, 'UTF8'),
  clock_timestamp());
INSERT INTO verbworker_engine.ended_instance (
  instance_key, definition_key, tenant_id, status, variables, created_at, ended_at
) VALUES (
  {KEY}, {KEY}, '{TENANT}', 'completed', convert_to('{WORD}', 'UTF8'), clock_timestamp(), clock_timestamp());
INSERT INTO verbworker_engine.job (
  job_key, instance_key, tenant_id, type, element_id, element_instance_key, retries, headers, due_at
) VALUES ({KEY}, {KEY}, '{TENANT}', '{WORD}', '{WORD}', {KEY}, 1, '{WORD}', clock_timestamp());
INSERT INTO verbworker_engine.timer (wait_key, instance_key, due_at) VALUES ({KEY}, {KEY}, clock_timestamp());
INSERT INTO verbworker_engine.subscription (
  wait_key, instance_key, tenant_id, process_id, message_name, correlation_key, opened_at
) VALUES ({KEY}, {KEY}, '{TENANT}', '{WORD}', '{WORD}', '{WORD}', clock_timestamp());
INSERT INTO verbworker_engine.message (
  tenant_id, message_name, correlation_key, message_id, variables, expires_at
) VALUES (
  '{TENANT}', '{WORD}', '{WORD}', '{WORD}', convert_to('{WORD}', 'UTF8'), clock_timestamp() + interval '1 hour');
INSERT INTO verbworker_engine.incident (
  incident_key, instance_key, job_key, element_id, kind, message, raised_at, element_instance_key
) VALUES ({KEY}, {KEY}, {KEY}, '{WORD}', 'x', '{WORD}', clock_timestamp(), {KEY});
"""

-- A definition whose key nobody recorded: the engine took a model and its answer was lost, or it lost its last records and
-- gave the model another key. Its jobs come all the same. It must be one of the models that were asked for lately, so these
-- are kept whole; where all that it can be agree in what matters, it is recorded as assumed until its deployer says more.
ALTER TABLE verbworker.process_deployment ADD COLUMN is_assumed boolean NOT NULL DEFAULT false;

ALTER TABLE verbworker.deployment_request
  ADD COLUMN verb text,
  ADD COLUMN resource text,
  ADD COLUMN authored_sha256 bytea,
  ADD COLUMN woven bytea,
  -- The model without what only people read: two models of one shape are alike to the engine.
  ADD COLUMN shape_sha256 bytea,
  ADD COLUMN waits jsonb,
  ADD COLUMN steps integer,
  ADD COLUMN requested_by text,
  ADD COLUMN terms_digest text REFERENCES verbworker.process_terms (digest);

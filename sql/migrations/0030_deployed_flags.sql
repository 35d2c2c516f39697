-- The flags of the contract that a model was last deployed with: an operator who sets one gives it a value that the contract
-- has. With what was asked for, because the same bytes may be deployed again under a changed contract.
ALTER TABLE verbworker.deployment_request ADD COLUMN flags jsonb;

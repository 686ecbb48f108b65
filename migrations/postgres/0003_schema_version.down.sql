-- An older program knows nothing of it. What it says is kept for when a newer one comes back.
ALTER TABLE replicator.schema_version RENAME TO schema_version_kept;

ALTER TABLE IF EXISTS replicator.schema_version_kept RENAME TO schema_version;

-- How far the source's schema changes are applied to the target, for each table of the source. The row is written in the
-- transaction of the DDL.
CREATE TABLE IF NOT EXISTS replicator.schema_version (
    pipeline      text        NOT NULL,
    source        text        NOT NULL,
    target_schema text        NOT NULL,
    target_table  text        NOT NULL,
    state         json        NOT NULL,
    updated       timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (pipeline, source)
);

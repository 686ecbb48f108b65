-- Records that were set aside because they could not be decoded or stored, and those of the same rows that came after them. They are
-- written and deleted in the pipeline's own transactions. An operator sets action, and the pipeline carries it out.
CREATE TABLE replicator.dead_letters (
    pipeline    text        NOT NULL,
    topic       text        NOT NULL,
    partition   integer     NOT NULL,
    "offset"    bigint      NOT NULL,
    source      text        NOT NULL,
    row_key     text        NOT NULL,
    class       text        NOT NULL,
    cause       text        NOT NULL,
    key         bytea,
    value       bytea,
    headers     text        NOT NULL,
    record_time timestamptz,
    action      text        CHECK (action IN ('retry', 'drop')),
    created     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (pipeline, topic, partition, "offset")
);
CREATE INDEX ON replicator.dead_letters (pipeline) WHERE action IS NOT NULL;

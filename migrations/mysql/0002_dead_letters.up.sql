-- Records that were set aside because they could not be decoded or stored, and those of the same rows that came after them. They are
-- written and deleted in the pipeline's own transactions. An operator sets action, and the pipeline carries it out.
CREATE TABLE IF NOT EXISTS replicator_dead_letters (
    pipeline    varchar(200) NOT NULL,
    topic       varchar(255) NOT NULL,
    `partition` int          NOT NULL,
    `offset`    bigint       NOT NULL,
    source      text         NOT NULL,
    row_key     varchar(700) NOT NULL,
    class       varchar(100) NOT NULL,
    cause       text         NOT NULL,
    `key`       longblob     NULL,
    value       longblob     NULL,
    headers     longtext     NOT NULL,
    record_time datetime(6)  NULL,
    action      varchar(8)   NULL CHECK (action IN ('retry', 'drop')),
    created     datetime(6)  NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
    PRIMARY KEY (pipeline, topic, `partition`, `offset`)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- The own tables of PostgreSQL in version 4 with kinds of types by name, after two events of four.
CREATE SCHEMA replicator;
CREATE TABLE public.pay (
    id integer NOT NULL,
    amt integer
);
CREATE TABLE replicator.checkpoints (
    pipeline text NOT NULL,
    id bigint NOT NULL,
    epoch bigint NOT NULL,
    created timestamp with time zone NOT NULL,
    savepoint boolean NOT NULL,
    document json NOT NULL
);
CREATE TABLE replicator.dead_letters (
    pipeline text NOT NULL,
    topic text NOT NULL,
    partition integer NOT NULL,
    "offset" bigint NOT NULL,
    source text NOT NULL,
    row_key text NOT NULL,
    class text NOT NULL,
    cause text NOT NULL,
    key bytea,
    value bytea,
    headers text NOT NULL,
    record_time timestamp with time zone,
    action text,
    created timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT dead_letters_action_check CHECK ((action = ANY (ARRAY['retry'::text, 'drop'::text])))
);
CREATE TABLE replicator.log (
    pipeline text NOT NULL,
    epoch bigint NOT NULL,
    checkpoint bigint NOT NULL,
    worker integer NOT NULL,
    part integer NOT NULL,
    sum bytea NOT NULL,
    body bytea NOT NULL
);
ALTER TABLE ONLY replicator.log ALTER COLUMN body SET STORAGE EXTERNAL;
CREATE TABLE replicator.pipelines (
    pipeline text NOT NULL,
    epoch bigint NOT NULL,
    acquired timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE replicator.schema_migrations (
    version bigint NOT NULL,
    dirty boolean NOT NULL
);
CREATE TABLE replicator.schema_version (
    pipeline text NOT NULL,
    source text NOT NULL,
    target_schema text NOT NULL,
    target_table text NOT NULL,
    state json NOT NULL,
    updated timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE replicator.witness (
    pipeline text NOT NULL,
    worker integer NOT NULL,
    epoch bigint NOT NULL,
    checkpoint bigint DEFAULT 0 NOT NULL,
    written bigint DEFAULT 0 NOT NULL,
    updated timestamp with time zone DEFAULT now() NOT NULL,
    note bytea
)
WITH (fillfactor='50');
INSERT INTO public.pay VALUES (1, 10);
INSERT INTO public.pay VALUES (2, 20);
INSERT INTO replicator.checkpoints VALUES ('upgraded', 1, 1, '2026-11-30 13:14:27.435271+00', false, '{"version":1,"pipeline":"upgraded","epoch":1,"id":1,"created":"2026-11-30T13:14:27.435271007Z","rows":0,"positions":[{"topic":"upgraded.shop.pay","partition":0,"offset":0}]}');
INSERT INTO replicator.checkpoints VALUES ('upgraded', 2, 1, '2026-11-30 13:14:27.755719+00', false, '{"version":1,"pipeline":"upgraded","epoch":1,"id":2,"created":"2026-11-30T13:14:27.755719556Z","rows":2,"positions":[{"topic":"upgraded.shop.pay","partition":0,"offset":2}],"transactions":[{"pipeline":"upgraded","epoch":1,"checkpoint":2,"worker":0}],"seen":[{"source":"src1","database":"shop","schema":"public","table":"pay","topic":"upgraded.shop.pay","partition":0,"log":"wal","at":[24004420,24004520,0,0],"txn":"721","digests":[13007288091742515854],"count":1,"cursor":1,"sent_ns":1717200004457000000,"ts_ms":1717200004420}]}');
INSERT INTO replicator.pipelines VALUES ('upgraded', 1, '2026-11-30 13:14:27.248612+00');
INSERT INTO replicator.schema_migrations VALUES (4, false);
INSERT INTO replicator.schema_version VALUES ('upgraded', 'shop.public.pay', '', 'pay', '{"at":{"log":"wal","at":[24004210,24004310,0,0],"txn":"720"},"offset":-1,"topic":"upgraded.shop.pay","table":{"Name":{"Schema":"public","Table":"pay"},"Columns":[{"Name":"id","Type":{"Kind":"unknown","Length":0,"Scale":0,"Values":null,"Elem":null,"Native":""},"NotNull":true,"AutoIncrement":false,"Generated":false,"Folds":false,"Collation":"","Default":null,"Comment":""},{"Name":"amt","Type":{"Kind":"unknown","Length":0,"Scale":0,"Values":null,"Elem":null,"Native":""},"NotNull":false,"AutoIncrement":false,"Generated":false,"Folds":false,"Collation":"","Default":null,"Comment":""}],"PrimaryKey":["id"],"Unique":null,"Indexes":null,"References":null,"Comment":"","Tied":false,"PrimaryKeyName":""}}', '2026-11-30 13:14:27.628607+00');
INSERT INTO replicator.witness VALUES ('upgraded', 0, 1, 2, 1, '2026-11-30 13:14:27.74674+00', NULL);
ALTER TABLE ONLY public.pay
    ADD CONSTRAINT pay_pkey PRIMARY KEY (id);
ALTER TABLE ONLY replicator.checkpoints
    ADD CONSTRAINT checkpoints_pkey PRIMARY KEY (pipeline, id);
ALTER TABLE ONLY replicator.dead_letters
    ADD CONSTRAINT dead_letters_pkey PRIMARY KEY (pipeline, topic, partition, "offset");
ALTER TABLE ONLY replicator.log
    ADD CONSTRAINT log_pkey PRIMARY KEY (pipeline, epoch, checkpoint, worker, part);
ALTER TABLE ONLY replicator.pipelines
    ADD CONSTRAINT pipelines_pkey PRIMARY KEY (pipeline);
ALTER TABLE ONLY replicator.schema_migrations
    ADD CONSTRAINT schema_migrations_pkey PRIMARY KEY (version);
ALTER TABLE ONLY replicator.schema_version
    ADD CONSTRAINT schema_version_pkey PRIMARY KEY (pipeline, source);
ALTER TABLE ONLY replicator.witness
    ADD CONSTRAINT witness_pkey PRIMARY KEY (pipeline, worker);
CREATE INDEX dead_letters_pipeline_idx ON replicator.dead_letters USING btree (pipeline) WHERE (action IS NOT NULL);

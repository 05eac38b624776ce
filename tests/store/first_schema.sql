CREATE TABLE alembic_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
CREATE TABLE bisections (
    id INTEGER NOT NULL,
    name VARCHAR(64) NOT NULL,
    created DATETIME NOT NULL,
    finished DATETIME,
    repository VARCHAR NOT NULL,
    good VARCHAR(64) NOT NULL,
    bad VARCHAR(64) NOT NULL,
    request JSON NOT NULL,
    golden VARCHAR(64),
    outcome VARCHAR(32),
    conclusion JSON,
    PRIMARY KEY (id),
    UNIQUE (name)
);
CREATE TABLE builds (
    id INTEGER NOT NULL,
    "key" VARCHAR(64) NOT NULL,
    created DATETIME NOT NULL,
    seconds DOUBLE NOT NULL,
    steps JSON NOT NULL,
    PRIMARY KEY (id),
    UNIQUE ("key")
);
CREATE TABLE commits (
    id INTEGER NOT NULL,
    repository VARCHAR NOT NULL,
    sha VARCHAR(64) NOT NULL,
    parents JSON NOT NULL,
    author VARCHAR NOT NULL,
    email VARCHAR NOT NULL,
    date DATETIME NOT NULL,
    subject TEXT NOT NULL,
    files JSON NOT NULL,
    PRIMARY KEY (id),
    UNIQUE (repository, sha)
);
CREATE INDEX ix_commits_sha ON commits (sha);
CREATE TABLE environments (
    id INTEGER NOT NULL,
    fingerprint VARCHAR(64) NOT NULL,
    details JSON NOT NULL,
    PRIMARY KEY (id),
    UNIQUE (fingerprint)
);
CREATE TABLE notices (
    id INTEGER NOT NULL,
    bisection_id INTEGER NOT NULL,
    created DATETIME NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (id),
    FOREIGN KEY(bisection_id) REFERENCES bisections (id)
);
CREATE INDEX ix_notices_bisection_id ON notices (bisection_id);
CREATE TABLE stages (
    id INTEGER NOT NULL,
    bisection_id INTEGER NOT NULL,
    ordinal INTEGER NOT NULL,
    repository VARCHAR NOT NULL,
    good VARCHAR(64) NOT NULL,
    bad VARCHAR(64) NOT NULL,
    held JSON NOT NULL,
    PRIMARY KEY (id),
    FOREIGN KEY(bisection_id) REFERENCES bisections (id),
    UNIQUE (bisection_id, ordinal)
);
CREATE INDEX ix_stages_bisection_id ON stages (bisection_id);
CREATE TABLE candidates (
    id INTEGER NOT NULL,
    stage_id INTEGER NOT NULL,
    ordinal INTEGER NOT NULL,
    commit_id INTEGER NOT NULL,
    representative_id INTEGER,
    content VARCHAR(64),
    PRIMARY KEY (id),
    FOREIGN KEY(commit_id) REFERENCES commits (id),
    FOREIGN KEY(representative_id) REFERENCES commits (id),
    FOREIGN KEY(stage_id) REFERENCES stages (id),
    UNIQUE (stage_id, ordinal)
);
CREATE INDEX ix_candidates_stage_id ON candidates (stage_id);
CREATE TABLE probes (
    id INTEGER NOT NULL,
    bisection_id INTEGER NOT NULL,
    stage_id INTEGER NOT NULL,
    ordinal INTEGER NOT NULL,
    phase VARCHAR(32) NOT NULL,
    repository VARCHAR NOT NULL,
    "commit" VARCHAR(64) NOT NULL,
    revisions JSON NOT NULL,
    content VARCHAR(64) NOT NULL,
    run INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    state VARCHAR(32) NOT NULL,
    started DATETIME NOT NULL,
    finished DATETIME,
    verdict VARCHAR(32),
    judgement VARCHAR(32),
    signature TEXT,
    metrics JSON,
    exit_code INTEGER,
    build_id INTEGER,
    build_source VARCHAR(32),
    build_seconds DOUBLE,
    run_seconds DOUBLE,
    environment_id INTEGER,
    slot INTEGER,
    host VARCHAR,
    command JSON,
    PRIMARY KEY (id),
    FOREIGN KEY(bisection_id) REFERENCES bisections (id),
    FOREIGN KEY(build_id) REFERENCES builds (id),
    FOREIGN KEY(environment_id) REFERENCES environments (id),
    FOREIGN KEY(stage_id) REFERENCES stages (id),
    UNIQUE (bisection_id, content, run),
    UNIQUE (bisection_id, ordinal)
);
CREATE INDEX ix_probes_bisection_id ON probes (bisection_id);
CREATE INDEX ix_probes_commit ON probes ("commit");
CREATE INDEX ix_probes_stage_id ON probes (stage_id);
CREATE TABLE artifacts (
    id INTEGER NOT NULL,
    probe_id INTEGER NOT NULL,
    kind VARCHAR(32) NOT NULL,
    path TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    PRIMARY KEY (id),
    FOREIGN KEY(probe_id) REFERENCES probes (id)
);
CREATE INDEX ix_artifacts_probe_id ON artifacts (probe_id);
CREATE TABLE evidence (
    id INTEGER NOT NULL,
    probe_id INTEGER NOT NULL,
    ordinal INTEGER NOT NULL,
    stream VARCHAR(16) NOT NULL,
    line INTEGER NOT NULL,
    text TEXT NOT NULL,
    why TEXT NOT NULL,
    PRIMARY KEY (id),
    FOREIGN KEY(probe_id) REFERENCES probes (id)
);
CREATE INDEX ix_evidence_probe_id ON evidence (probe_id);
INSERT INTO alembic_version VALUES ('0001');

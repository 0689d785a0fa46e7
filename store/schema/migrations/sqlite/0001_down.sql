DROP TABLE {{table "audit_log"}};

DROP TABLE {{table "positions"}};

DROP TABLE {{table "consumers"}};

DROP TABLE {{table "attempts"}};

DROP TABLE {{table "held_messages"}};

DROP TABLE {{table "results"}};

DROP TABLE {{table "processed_messages"}};

DROP TABLE {{table "schema_version"}};

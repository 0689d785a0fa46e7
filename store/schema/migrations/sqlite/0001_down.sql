DROP TABLE {{table "held_messages"}};

DROP TABLE {{table "results"}};

DROP TABLE {{table "processed_messages"}};

DROP TABLE {{table "schema_version"}};

DROP TABLE {{table "audit_log"}};

DROP TABLE {{table "positions"}};

DROP TABLE {{table "consumers"}};

DROP TABLE {{table "attempts"}};

DROP TABLE {{table "held_messages"}};

DROP TABLE {{table "results"}};

DROP TABLE {{table "processed_messages"}};

DROP TABLE {{table "schema_version"}};

-- The schema goes when Yekbar created it and nothing else lives in it.
DO $yekbar$
BEGIN
  IF EXISTS (SELECT FROM pg_catalog.pg_namespace n WHERE n.nspname = {{schemaLiteral}}
      AND pg_catalog.obj_description(n.oid, 'pg_namespace') = 'created by Yekbar'
      AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d
        WHERE d.refclassid = 'pg_catalog.pg_namespace'::pg_catalog.regclass AND d.refobjid = n.oid)) THEN
    DROP SCHEMA {{schema}};
  END IF;
END
$yekbar$;

DROP TABLE "Msg-1 ""it's"""."audit_log";

DROP TABLE "Msg-1 ""it's"""."positions";

DROP TABLE "Msg-1 ""it's"""."consumers";

DROP TABLE "Msg-1 ""it's"""."attempts";

DROP TABLE "Msg-1 ""it's"""."held_messages";

DROP TABLE "Msg-1 ""it's"""."results";

DROP TABLE "Msg-1 ""it's"""."processed_messages";

DROP TABLE "Msg-1 ""it's"""."schema_version";

-- The schema goes when Yekbar created it and nothing else lives in it.
DO $yekbar$
BEGIN
  IF EXISTS (SELECT FROM pg_catalog.pg_namespace n WHERE n.nspname = 'Msg-1 "it''s"'
      AND pg_catalog.obj_description(n.oid, 'pg_namespace') = 'created by Yekbar'
      AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d
        WHERE d.refclassid = 'pg_catalog.pg_namespace'::pg_catalog.regclass AND d.refobjid = n.oid)) THEN
    DROP SCHEMA "Msg-1 ""it's""";
  END IF;
END
$yekbar$;

// Package servers gives tests real servers: PostgreSQL, MariaDB (or MySQL),
// PgBouncer and NATS JetStream, private to the test run, on free ports of
// 127.0.0.1, with their data in a folder that git ignores.
//
// A test package says once, in a TestMain, that it uses them:
//
//	func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }
//
// and a test asks for what it needs:
//
//	func TestTransfer(t *testing.T) {
//		pool, err := pgxpool.New(t.Context(), servers.PostgreSQL(t)) // a fresh database
//		...
//	}
//
//	func TestCrashAtCommit(t *testing.T) {
//		server := servers.StartPostgreSQL(t, servers.Options{Fsync: true}) // this test's own
//		...
//		if err := server.Kill(); err != nil { // SIGKILL, the whole server
//			t.Fatal(err)
//		}
//		if err := server.Restart(); err != nil { // same URL, same data
//			t.Fatal(err)
//		}
//	}
//
// [PostgreSQL], [MariaDB] and [PgBouncer] return the URL of an empty database,
// which is emptied or dropped after the test; [NATS] returns a server that all tests share, so name
// streams with [UniqueName]. The shared servers are those that the variables
// YEKBAR_TEST_POSTGRES, YEKBAR_TEST_MARIADB, YEKBAR_TEST_PGBOUNCER and
// YEKBAR_TEST_NATS name (the services program sets them, a user may too);
// otherwise the test binary starts its own at the first call, and Main stops
// them. They run without fsync: what they promise to survive is a killed
// process, not a power cut.
//
// A server that isn't installed skips the test, and says how to get it; with
// YEKBAR_REQUIRE_SERVICES=1 it fails the test.
//
// Servers die with the process that started them, also when that is killed (on
// Linux by the parent-death signal). The folder of a killed run is removed by
// the next one. YEKBAR_SERVICES_DIR moves the folder from .services in the
// repository's root to somewhere else.
package servers

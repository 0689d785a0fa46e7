package schema

import (
	"bufio"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/yekbar-go/yekbar"
)

func TestClassifySQLState(t *testing.T) {
	for code, want := range map[string]error{
		"40001": yekbar.ErrTransient,
		"40P01": yekbar.ErrTransient,
		"40002": nil, // a constraint at COMMIT
		"55P03": yekbar.ErrTransient,
		"08006": yekbar.ErrUnavailable,
		"08003": yekbar.ErrUnavailable,
		"08P01": nil,
		"57P01": yekbar.ErrUnavailable,
		"57P03": yekbar.ErrUnavailable,
		"53300": yekbar.ErrUnavailable,
		"42P01": yekbar.ErrEnvironment,
		"42703": yekbar.ErrEnvironment,
		"42501": yekbar.ErrEnvironment,
		"25006": yekbar.ErrEnvironment,
		"53100": yekbar.ErrEnvironment,
		"28P01": yekbar.ErrEnvironment,
		"28000": yekbar.ErrEnvironment,
		"3D000": yekbar.ErrEnvironment,
		"23505": nil, // unique_violation
		"23503": nil, // foreign_key_violation
		"22021": nil, // character_not_in_repertoire
		"22012": nil, // division_by_zero
		"25P02": nil, // in_failed_sql_transaction: says nothing of the cause
		"25P03": nil, // idle_in_transaction_session_timeout: a handler that dawdles
		"57014": nil, // query_canceled
		"":      nil,
		"4":     nil,
	} {
		if got := ClassifySQLState(code); got != want {
			t.Errorf("ClassifySQLState(%q) = %v, want %v", code, got, want)
		}
	}
}

func TestClassifyMySQL(t *testing.T) {
	for number, want := range map[uint16]error{
		1213: yekbar.ErrTransient,
		1205: yekbar.ErrTransient,
		1040: yekbar.ErrUnavailable,
		1053: yekbar.ErrUnavailable,
		1927: yekbar.ErrUnavailable,
		1146: yekbar.ErrEnvironment,
		1054: yekbar.ErrEnvironment,
		1290: yekbar.ErrEnvironment,
		1114: yekbar.ErrEnvironment,
		1062: nil, // ER_DUP_ENTRY
		1452: nil, // ER_NO_REFERENCED_ROW_2
		1305: nil, // ER_SP_DOES_NOT_EXIST: also a savepoint
		1317: nil, // ER_QUERY_INTERRUPTED
		1969: nil, // ER_STATEMENT_TIMEOUT
		0:    nil,
	} {
		if got := ClassifyMySQL(number); got != want {
			t.Errorf("ClassifyMySQL(%d) = %v, want %v", number, got, want)
		}
	}
}

func TestClassifySQLite(t *testing.T) {
	for code, want := range map[int]error{
		5:    yekbar.ErrUnavailable,
		261:  yekbar.ErrUnavailable, // SQLITE_BUSY_RECOVERY
		517:  yekbar.ErrTransient,   // SQLITE_BUSY_SNAPSHOT
		8:    yekbar.ErrEnvironment,
		1032: yekbar.ErrEnvironment, // SQLITE_READONLY_DBMOVED
		13:   yekbar.ErrEnvironment,
		778:  yekbar.ErrEnvironment, // SQLITE_IOERR_WRITE
		1:    nil,                   // SQLITE_ERROR
		9:    nil,                   // SQLITE_INTERRUPT
		19:   nil,                   // SQLITE_CONSTRAINT
		1555: nil,                   // SQLITE_CONSTRAINT_PRIMARYKEY
		0:    nil,
	} {
		if got := ClassifySQLite(code); got != want {
			t.Errorf("ClassifySQLite(%d) = %v, want %v", code, got, want)
		}
	}
}

// Every entry has the name that its number has in the source.
func TestClassifiedCodesAreNamed(t *testing.T) {
	f, err := os.Open("classify.go")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var entries, named int
	for s := bufio.NewScanner(f); s.Scan(); {
		line := strings.TrimSpace(s.Text())
		if strings.Contains(line, ": yekbar.Err") || strings.Contains(line, ":  yekbar.Err") || strings.Contains(line, ":   yekbar.Err") || strings.Contains(line, ": nil,") {
			entries++
			if strings.Contains(line, "// ") {
				named++
			} else {
				t.Errorf("no name: %s", line)
			}
		}
	}
	if want := len(sqlStates) + len(sqlStateClasses) + len(mysqlNumbers) + len(sqliteCodes); entries != want || named != want {
		t.Errorf("%d entries, %d named, want %d", entries, named, want)
	}
	for _, code := range slices.Collect(maps.Keys(sqlStates)) {
		if len(code) != 5 {
			t.Errorf("SQLSTATE %q has not five characters", code)
		}
	}
}

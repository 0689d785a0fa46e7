package doctor

func (e *examination) sqlite() {
	var version, journal string
	var synchronous, pages, free, page int64
	if !e.ask("server", []any{&version}, "SELECT sqlite_version()") {
		return
	}
	e.ok("server", "SQLite %s", version)
	e.ok("isolation", "serializable, as all of SQLite's; one writer at a time")
	if e.ask("durability", []any{&journal, &synchronous}, "SELECT (SELECT journal_mode FROM pragma_journal_mode), (SELECT synchronous FROM pragma_synchronous)") {
		e.when(journal != "wal", "durability", Warning, "open it with journal_mode(WAL) and synchronous(FULL)", "journal_mode is %s; synchronous is each connection's own: FULL in this program, and to be set in yours", journal)
	}
	if e.ask("size", []any{&pages, &free, &page}, "SELECT (SELECT page_count FROM pragma_page_count), (SELECT freelist_count FROM pragma_freelist_count), (SELECT page_size FROM pragma_page_size)") {
		e.when(free*page > 64<<20 && free > pages/2, "size", Warning, "VACUUM gives it back, at a quiet time", "%s, of which %s are free", bytesText(pages*page), bytesText(free*page))
	}
}

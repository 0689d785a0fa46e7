package servers

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// languages are those that Options.Language knows, and their locales.
var languages = map[string]string{"de": "de_DE"}

// serverLocale returns the locale of a language and the environment in which
// a program finds it. It is compiled into our own folder (LOCPATH, see
// locale(7)), so the system's list of locales stays as it is and root isn't
// needed.
func serverLocale(f *folder, language string) (locale string, env []string, err error) {
	locale, ok := languages[language]
	if !ok {
		return "", nil, fmt.Errorf("servers: no locale for language %q", language)
	}
	localedef, err := exec.LookPath("localedef")
	if err == nil {
		_, err = os.Stat("/usr/share/i18n/locales/" + locale)
	}
	if err != nil {
		return "", nil, &MissingError{Kind: KindPostgreSQL, What: "no source of the locale " + locale + " to start one that speaks it", Package: "locales"}
	}
	dir := filepath.Join(f.base, "locales")
	compiled := filepath.Join(dir, locale+".UTF-8")
	unlock, err := lockFile(filepath.Join(f.base, "locales.lock"))
	if err != nil {
		return "", nil, err
	}
	defer unlock()
	if _, err := os.Stat(compiled); errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return "", nil, err
		}
		unfinished := compiled + ".new"
		if err := os.RemoveAll(unfinished); err != nil {
			return "", nil, err
		}
		if err := finish(exec.Command(localedef, "-i", locale, "-f", "UTF-8", unfinished), initBound); err != nil {
			return "", nil, err
		}
		if err := os.Rename(unfinished, compiled); err != nil {
			return "", nil, err
		}
	}
	return locale, []string{"LOCPATH=" + dir}, nil
}

package reload

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "n")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	open := func() (*File[int], error) {
		return Open(path, 8, func(body []byte) (int, error) { return strconv.Atoi(strings.TrimSpace(string(body))) })
	}
	if _, err := open(); err == nil || !strings.Contains(err.Error(), path) {
		t.Fatalf("a file that is not there: %v", err)
	}
	write("x")
	if _, err := open(); err == nil || !strings.Contains(err.Error(), path+`: strconv.Atoi: parsing "x"`) {
		t.Fatalf("a broken file: %v", err)
	}
	write("1")
	f, err := open()
	if err != nil {
		t.Fatal(err)
	}
	check := func(what string, value int, change bool, fault string) {
		t.Helper()
		changed, err := f.Poll()
		if f.Value() != value || changed != change || (err == nil) != (fault == "") || err != nil && !strings.Contains(err.Error(), fault) {
			t.Errorf("%s: value %d, changed %v, %v; want %d, %v, %q", what, f.Value(), changed, err, value, change, fault)
		}
	}
	check("nothing happened", 1, false, "")
	write("2")
	check("a change of the same size", 2, true, "")
	write("two")
	check("a broken one", 2, false, `parsing "two"`)
	check("is told of once", 2, false, "")
	write("three")
	check("another broken one", 2, false, `parsing "three"`)
	write("2")
	check("mended", 2, true, "")
	write("123456789")
	check("too large", 2, false, "more than 8 bytes")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	check("removed", 2, false, "no such file")
	check("still", 2, false, "")
	write("4")
	check("there again", 4, true, "")
}

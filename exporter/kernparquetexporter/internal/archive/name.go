package archive

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/kernhes/kernhes/internal/parquet"
)

// A Name names the files of one part:
//
//	20261129T153000Z-HOST-120            of the roll that begins then, by this collector, begun 120 ms later
//	k-20261129T153000Z-HOST-120.parquet  closed: a table
//	k-….parquet.open                     a table while it is written
//	20261129T153000Z-HOST-120.journal    is there while the part is not closed
//	….journal.new, ….journal.bad         a journal being written; one that could not be read
//
// So a name does not come again when its files were moved elsewhere.
type Name struct {
	Roll   time.Time // begin of the roll, whole seconds
	Host   string
	Number int // ms after Roll, or more if that was taken
}

// stampFormat is how a roll's begin stands in names: they sort by time.
const stampFormat = "20060102T150405Z"

var (
	stemPattern    = `(\d{8}T\d{6}Z)-([A-Za-z0-9._-]+)-(\d{1,9})`
	tablePattern   = regexp.MustCompile(`^([kscr])-` + stemPattern + `\.parquet$`)
	journalPattern = regexp.MustCompile(`^()` + stemPattern + `\.journal$`)
	anyPattern     = regexp.MustCompile(`^([kscr]-)?` + stemPattern + `\.(parquet|parquet\.open|journal|journal\.new|journal\.bad)$`)
	notInHosts     = regexp.MustCompile(`[^A-Za-z0-9._-]+`)
)

// HostName makes of a host's name what may stand in file names.
func HostName(host string) string {
	host = notInHosts.ReplaceAllString(host, "_")
	return cmp.Or(host[:min(len(host), 63)], "host")
}

// parse reads the name of a file that pattern knows.
func parse(pattern *regexp.Regexp, file string) (Name, bool) {
	m := pattern.FindStringSubmatch(file)
	if m == nil {
		return Name{}, false
	}
	roll, err := time.Parse(stampFormat, m[2])
	number, _ := strconv.Atoi(m[4])
	return Name{roll, m[3], number}, err == nil
}

func (n Name) String() string {
	return fmt.Sprintf("%s-%s-%d", n.Roll.UTC().Format(stampFormat), n.Host, n.Number)
}

func (n Name) journal() string { return n.String() + ".journal" }

func (n Name) closed(t parquet.Table) string { return fmt.Sprintf("%s-%s.parquet", t, n) }

func (n Name) open(t parquet.Table) string { return n.closed(t) + ".open" }

// compare orders by age, the oldest first.
func (n Name) compare(o Name) int {
	return cmp.Or(n.Roll.Compare(o.Roll), cmp.Compare(n.Host, o.Host), cmp.Compare(n.Number, o.Number))
}

// journals are the names in entries that have a journal, the oldest first.
func journals(entries []Entry) (names []Name) {
	for _, e := range entries {
		if n, ok := parse(journalPattern, e.Name); ok {
			names = append(names, n)
		}
	}
	slices.SortFunc(names, Name.compare)
	return names
}

// next is a name of the roll, each of so long, for a part that begins now. Neither a file in entries nor any of taken has it.
func next(entries []Entry, taken []Name, now time.Time, long time.Duration, host string) Name {
	roll := now.UTC().Truncate(long)
	for _, e := range entries {
		if n, ok := parse(anyPattern, e.Name); ok {
			taken = append(taken, n)
		}
	}
	name := Name{roll, host, int(now.Sub(roll).Milliseconds())}
	for _, n := range taken {
		if n.Roll.Equal(roll) && n.Host == host {
			name.Number = max(name.Number, n.Number+1)
		}
	}
	return name
}

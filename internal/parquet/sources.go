package parquet

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Bounds of what a file tells of its sources: its footer, and the archive's journal, hold all of them.
const (
	maxSources      = 1024 // of a row group; the rows of further ones are of otherSource
	maxFileSources  = 4096 // of a file, likewise
	maxFileValues   = 1024 // runs, ranks, hosts and modes that a file lists
	maxAccounts     = 4096 // that wait for the group that they go with
	maxSourceText   = 256  // bytes of a source's texts; the columns have the whole
	otherSourceRank = -1
)

// otherSource is the source of rows for which there are too many sources.
func otherSource() Source { return Source{Run: "other", Rank: otherSourceRank} }

// sources are where the rows of a row group come from, in order of their first row.
type sources struct {
	all   []Source
	index map[sourceKey]int
	last  *origin
	at    int
}

// of is the source that an origin is.
func (s *sources) of(c *origin) *Source {
	if c == s.last {
		return &s.all[s.at]
	}
	key := sourceKey{cutText(c.Run), c.Rank, c.Device, c.Session}
	at, known := s.index[key]
	one := c.source()
	if !known && len(s.all) >= maxSources-1 {
		one = otherSource()
		key = one.key()
		at, known = s.index[key]
	}
	if !known {
		at = len(s.all)
		s.all = append(s.all, one)
		if s.index == nil {
			s.index = map[sourceKey]int{}
		}
		s.index[key] = at
	}
	s.last, s.at = c, at
	if len(c.counts) > 0 && s.all[at].Session == c.Session {
		s.all[s.at].account = accountOf(c.counts)
	}
	return &s.all[s.at]
}

// source is an origin's, without rows.
func (c *origin) source() Source {
	return Source{Run: cutText(c.Run), Rank: c.Rank, Device: c.Device, Session: c.Session, Host: cutText(c.Host), Mode: cutText(c.Mode)}
}

// cutText bounds a text, between two runes.
func cutText(s string) string {
	if len(s) <= maxSourceText {
		return s
	}
	return strings.ToValidUTF8(s[:maxSourceText], "")
}

// add counts rows from start to end, unix ns.
func (s *Source) add(rows int, start, end uint64) {
	if s.Rows == 0 {
		s.From = start
	}
	s.Rows += int64(rows)
	s.From, s.To = min(s.From, start), max(s.To, end)
}

// sourcesInOrder are those that have an account.
func sourcesInOrder(accounts map[sourceKey]latest) []sourceKey {
	return slices.SortedFunc(maps.Keys(accounts), func(a, b sourceKey) int {
		return cmp.Or(cmp.Compare(a.run, b.run), cmp.Compare(a.rank, b.rank), cmp.Compare(a.device, b.device), cmp.Compare(a.session, b.session))
	})
}

// ranksInOrder are the ranks that have rows waiting.
func ranksInOrder(waiting map[rankKey]*rankRows) []rankKey {
	return slices.SortedFunc(maps.Keys(waiting), func(a, b rankKey) int {
		return cmp.Or(cmp.Compare(a.run, b.run), cmp.Compare(a.rank, b.rank))
	})
}

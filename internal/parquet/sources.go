package parquet

import (
	"cmp"
	"maps"
	"slices"
)

// sources are where the rows of a row group come from, in order of their first row.
type sources struct {
	all  []Source
	last *origin
	at   int
}

// of is the source that an origin is.
func (s *sources) of(c *origin) *Source {
	if c == s.last {
		return &s.all[s.at]
	}
	key := sourceKey{c.Run, c.Rank, c.Device, c.Session}
	s.last, s.at = c, slices.IndexFunc(s.all, func(o Source) bool { return o.key() == key })
	if s.at < 0 {
		s.at = len(s.all)
		s.all = append(s.all, c.source())
	}
	if len(c.counts) > 0 {
		s.all[s.at].account = accountOf(c.counts)
	}
	return &s.all[s.at]
}

// source is an origin's, without rows.
func (c *origin) source() Source {
	return Source{Run: c.Run, Rank: c.Rank, Device: c.Device, Session: c.Session, Host: c.Host, Mode: c.Mode}
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

package archive

import (
	"errors"
	"io/fs"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"
)

// retain removes closed parts of this host that are too old, and the oldest ones while all of them take too much. A part that has a journal
// is left alone, and so are files that no part has.
func (a *Archive) retain(now time.Time) {
	if a.o.MaxAge <= 0 && a.o.MaxBytes <= 0 {
		return
	}
	if err := a.removeOld(steady(now, a.begun, now.Sub(a.begun))); err != nil {
		a.o.Logger.Warn("retention: old files could not be removed", zap.Error(err))
		a.count(func(c *Counts) { c.Failures++ })
	}
}

// steady is the time by which files are old: what the clock says now, but no later than as much time has passed since begun. A clock that
// jumps ahead makes no file old.
func steady(now, begun time.Time, passed time.Duration) time.Time {
	if most := begun.Round(0).Add(passed); now.After(most) {
		return most
	}
	return now
}

func (a *Archive) removeOld(now time.Time) error {
	entries, err := a.o.Disk.List()
	if err != nil {
		return err
	}
	unclosed := journals(entries)
	files := map[Name][]Entry{}
	total := int64(0)
	for _, e := range entries {
		if n, ok := parse(tablePattern, e.Name); ok && n.Host == a.o.Host && !slices.Contains(unclosed, n) {
			files[n] = append(files[n], e)
			total += e.Size
		}
	}
	for _, n := range slices.SortedFunc(maps.Keys(files), Name.compare) {
		old := a.o.MaxAge > 0 && !n.Roll.After(now) && now.Sub(n.Roll.Add(a.o.Roll)) > a.o.MaxAge
		big := a.o.MaxBytes > 0 && total > a.o.MaxBytes
		if !old && !big {
			continue
		}
		for _, e := range files[n] {
			if err := a.o.Disk.Remove(e.Name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			total -= e.Size
			a.count(func(c *Counts) { c.Removed++ })
		}
	}
	return nil
}

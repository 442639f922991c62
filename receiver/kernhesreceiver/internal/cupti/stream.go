package cupti

// A mark is the work of one API call on a stream.
type mark struct {
	correlation uint32
	start, end  uint64 // of what came of it first, unix ns
}

// A lane is a stream of a device, as far as it tells when a replay has ended: what is launched to a
// stream starts after all that was launched to it before.
type lane struct {
	key  uint64
	now  mark // the latest call whose records came
	then mark // what now was at the flush before
}

// ran takes the record of a call.
func (s *lane) ran(correlation uint32, start, end uint64) {
	switch {
	case s.now.end == 0 || after(correlation, s.now.correlation):
		s.now = mark{correlation, start, end}
	case correlation == s.now.correlation && start < s.now.start:
		s.now.start, s.now.end = start, end
	}
}

// ends reports whether m shows that a replay has ended, to a flush that began at t: it was launched
// later, it started after all of the replay that came, and the flush covers it.
func (m *mark) ends(l *Launch, t uint64) bool {
	return m.end != 0 && after(m.correlation, l.Correlation) && m.start >= l.last && m.end+Slack < t
}

// maxLanes bounds the streams of a process. A replay on one beyond is never seen to end.
const maxLanes = 1 << 10

// lane returns a stream's lane, or nil where there is no room for it.
func (j *Joiner) lane(device uint16, stream uint32) *lane {
	key := uint64(device)<<32 | uint64(stream)
	if j.recentLane != nil && j.recentLane.key == key {
		return j.recentLane
	}
	s := j.lanes[key]
	if s == nil {
		if len(j.lanes) >= maxLanes {
			return nil
		}
		s = &lane{key: key}
		j.lanes[key] = s
	}
	j.recentLane = s
	return s
}

// maxUsed bounds the streams of a replay that are waited for.
const maxUsed = 16

// on takes note that a launch of a graph uses a stream.
func (l *Launch) on(s *lane) {
	if s == nil {
		l.unordered = true
		return
	}
	for _, one := range l.lanes {
		if one == s {
			return
		}
	}
	if len(l.lanes) < maxUsed {
		l.lanes = append(l.lanes, s)
	}
}

// followed reports whether later work on each stream of a replay shows to a flush that began at t that
// all of the replay has come. missing is the oldest launch that lacks records for sure, or nil: while it
// runs, the buffer that its record lies in does not come, nor what else lies there.
func (l *Launch) followed(t uint64, missing *Launch) bool {
	for _, s := range l.lanes {
		shown := false
		for _, m := range []*mark{&s.now, &s.then} {
			shown = shown || m.ends(l, t) && (missing == nil || after(missing.Correlation, m.correlation))
		}
		if !shown {
			return false
		}
	}
	return len(l.lanes) > 0 && !l.unordered
}

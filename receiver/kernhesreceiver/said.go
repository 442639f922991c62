package kernhesreceiver

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/classify"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/manifest"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/reload"
)

// said is what files of the user say of kernels. They are looked at while the receiver runs; one that is broken then is
// refused with the place and the reason, and what it said before stays. The zero said says what ships.
//
//	files ──poll, every 2 s──▶ a new saying ──▶ sessions compare pointers at each heartbeat, and class anew
type said struct {
	mu       sync.Mutex // of polls
	rules    *reload.File[classify.Rules]
	manifest *reload.File[*manifest.Manifest]
	latest   atomic.Pointer[saying]
}

// A saying is what the files say at one time. It does not change.
type saying struct {
	rules    classify.Rules
	manifest *manifest.Manifest // nil: there is none
}

// shipped is what is said without files.
var shipped = &saying{rules: classify.Builtin}

const (
	maxClassTable = 1 << 20  // bytes
	maxManifest   = 16 << 20 // bytes
	// saidInterval is how often files are looked at: a manifest of 5 MB takes 4 ms to read and hash.
	saidInterval = 2 * time.Second
)

// openSaid reads the files that the configuration names; an error names the setting.
func openSaid(cfg *Config) (*said, error) {
	s := &said{}
	var err error
	if cfg.ClassTable != "" {
		s.rules, err = reload.Open(cfg.ClassTable, maxClassTable, func(body []byte) (classify.Rules, error) {
			own, err := classify.Parse(string(body))
			if err != nil {
				return classify.Rules{}, err
			}
			return own.Over(classify.Builtin), nil
		})
		if err != nil {
			return nil, fmt.Errorf("class_table: %w", err)
		}
	}
	if cfg.Manifest != "" {
		if s.manifest, err = reload.Open(cfg.Manifest, maxManifest, manifest.Parse); err != nil {
			return nil, fmt.Errorf("manifest: %w", err)
		}
	}
	s.say()
	return s, nil
}

// say makes a saying of what the files last said.
func (s *said) say() {
	now := *shipped
	if s.rules != nil {
		now.rules = s.rules.Value()
	}
	if s.manifest != nil {
		now.manifest = s.manifest.Value()
	}
	s.latest.Store(&now)
}

// now is what is said at present.
func (s *said) now() *saying {
	if now := s.latest.Load(); now != nil {
		return now
	}
	return shipped
}

// refused says of each file that is refused why, with the setting that names it.
func (s *said) refused() (why []string) {
	say := func(setting string, err error) {
		if err != nil {
			why = append(why, fmt.Sprintf("%s is refused, the last good one stays: %v", setting, err))
		}
	}
	if s.rules != nil {
		say("class_table", s.rules.Refused())
	}
	if s.manifest != nil {
		say("manifest", s.manifest.Refused())
	}
	return why
}

// poll looks at the files. What one says anew, and why one is refused, is logged once.
func (s *said) poll(log *zap.Logger) {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := poll(log, "class_table", s.rules, func(r classify.Rules) string { return r.Version })
	if poll(log, "manifest", s.manifest, func(m *manifest.Manifest) string { return m.Version }) || changed {
		s.say()
	}
}

// poll looks at the file of a setting; nil: it names none.
func poll[T any](log *zap.Logger, setting string, file *reload.File[T], version func(T) string) bool {
	if file == nil {
		return false
	}
	changed, err := file.Poll()
	switch {
	case err != nil:
		log.Warn(setting+" is refused, the last good one stays", zap.Error(err))
	case changed:
		log.Info(setting+" has changed: all sessions go by it from now on", zap.String("version", version(file.Value())))
	}
	return changed
}

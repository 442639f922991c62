package kernhesreceiver

import (
	"fmt"
	"sync"

	"go.uber.org/zap"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/classify"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/manifest"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/reload"
)

// said is what files of the user say of kernels. They are looked at anew when a session begins; one that was broken
// meanwhile is refused with the place and the reason, and what it said before stays. The zero said says what ships.
type said struct {
	mu       sync.Mutex
	rules    *reload.File[classify.Rules]
	manifest *reload.File[*manifest.Manifest]
}

const (
	maxClassTable = 1 << 20  // bytes
	maxManifest   = 16 << 20 // bytes
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
	return s, nil
}

// now is what is said at present.
func (s *said) now(log *zap.Logger) (classify.Rules, *manifest.Manifest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rules, m := classify.Builtin, (*manifest.Manifest)(nil)
	if s.rules != nil {
		if _, err := s.rules.Poll(); err != nil {
			log.Warn("class_table is refused, the last good one stays", zap.Error(err))
		}
		rules = s.rules.Value()
	}
	if s.manifest != nil {
		if _, err := s.manifest.Poll(); err != nil {
			log.Warn("manifest is refused, the last good one stays", zap.Error(err))
		}
		m = s.manifest.Value()
	}
	return rules, m
}

// Package rules turns the user's files into the rules that class kernels.
package rules

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/classify"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/manifest"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/reload"
)

// A Ruleset is one version of the rules. It is immutable.
type Ruleset struct {
	Classes  classify.Rules
	Manifest *manifest.Manifest // nil: there is none
}

// Shipped is the ruleset without files.
var Shipped = &Ruleset{Classes: classify.Builtin}

const (
	maxClassTable = 1 << 20  // bytes
	maxManifest   = 16 << 20 // bytes
)

// Interval is how often files are to be polled: a manifest of 5 MB takes 4 ms to read and hash.
const Interval = 2 * time.Second

// Files are the user's files. They may change while the receiver runs. A file that is broken then is refused, and its last
// good version stays. The zero Files have the shipped rules.
//
//	files ──Poll, each Interval──▶ a new Ruleset ──▶ engines compare pointers at each heartbeat, and class anew
type Files struct {
	polling  sync.Mutex
	classes  *reload.File[classify.Rules]
	manifest *reload.File[*manifest.Manifest]
	latest   atomic.Pointer[Ruleset]
}

// Open reads the files of the settings class_table and manifest; an empty path names none. An error names the setting.
func Open(classTable, manifestPath string) (*Files, error) {
	f := &Files{}
	var err error
	if classTable != "" {
		f.classes, err = reload.Open(classTable, maxClassTable, func(body []byte) (classify.Rules, error) {
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
	if manifestPath != "" {
		if f.manifest, err = reload.Open(manifestPath, maxManifest, manifest.Parse); err != nil {
			return nil, fmt.Errorf("manifest: %w", err)
		}
	}
	f.publish()
	return f, nil
}

// publish makes a ruleset of the files' last good versions.
func (f *Files) publish() {
	latest := *Shipped
	if f.classes != nil {
		latest.Classes = f.classes.Value()
	}
	if f.manifest != nil {
		latest.Manifest = f.manifest.Value()
	}
	f.latest.Store(&latest)
}

// Latest is the ruleset that holds now. It reads no file.
func (f *Files) Latest() *Ruleset {
	if latest := f.latest.Load(); latest != nil {
		return latest
	}
	return Shipped
}

// Refused explains for each refused file why it is refused, with its setting.
func (f *Files) Refused() (why []string) {
	add := func(setting string, err error) {
		if err != nil {
			why = append(why, fmt.Sprintf("%s is refused, the last good one stays: %v", setting, err))
		}
	}
	if f.classes != nil {
		add("class_table", f.classes.Refused())
	}
	if f.manifest != nil {
		add("manifest", f.manifest.Refused())
	}
	return why
}

// A Change is a file that has a new version, or that is newly refused.
type Change struct {
	Setting string
	Version string
	Err     error // nil: it is not refused
}

// Poll reads the files that have changed, and returns each change once.
func (f *Files) Poll() (changes []Change) {
	f.polling.Lock()
	defer f.polling.Unlock()
	add := func(c Change, ok bool) {
		if ok {
			changes = append(changes, c)
		}
	}
	add(poll("class_table", f.classes, func(r classify.Rules) string { return r.Version }))
	add(poll("manifest", f.manifest, func(m *manifest.Manifest) string { return m.Version }))
	for _, c := range changes {
		if c.Err == nil {
			f.publish()
			break
		}
	}
	return changes
}

// poll reads the file of a setting if it has changed; nil: the setting names none.
func poll[T any](setting string, file *reload.File[T], version func(T) string) (Change, bool) {
	if file == nil {
		return Change{}, false
	}
	changed, err := file.Poll()
	switch {
	case err != nil:
		return Change{Setting: setting, Err: err}, true
	case changed:
		return Change{Setting: setting, Version: version(file.Value())}, true
	}
	return Change{}, false
}

// Package durations finds durations without a unit in a configuration.
package durations

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/collector/confmap"
)

// Check names each duration of a configuration that is a bare number. The Collector would take it for nanoseconds. cfg is the
// struct that the configuration is read into.
func Check(conf *confmap.Conf, cfg any) error {
	return errors.Join(check(nil, conf.ToStringMap(), reflect.TypeOf(cfg), "")...)
}

var duration = reflect.TypeFor[time.Duration]()

// check appends the faults of a value that is read into a type, at a path of keys.
func check(faults []error, raw any, t reflect.Type, path string) []error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == duration {
		if n, bare := number(raw); bare {
			faults = append(faults, fmt.Errorf("%s: %s: a duration needs a unit, as %ss or %sms", path, n, n, n))
		}
		return faults
	}
	if get, ok := reflect.PointerTo(t).MethodByName("Get"); ok && t.Kind() == reflect.Struct && get.Type.NumIn() == 1 && get.Type.NumOut() == 1 {
		return check(faults, raw, get.Type.Out(0), path) // configoptional.Optional
	}
	switch t.Kind() {
	case reflect.Struct:
		keys, ok := raw.(map[string]any)
		if !ok {
			return faults
		}
		for i := range t.NumField() {
			name, options, _ := strings.Cut(t.Field(i).Tag.Get("mapstructure"), ",")
			switch {
			case strings.Contains(options, "squash"):
				faults = check(faults, raw, t.Field(i).Type, path)
			case name != "" && keys[name] != nil:
				faults = check(faults, keys[name], t.Field(i).Type, join(path, name))
			}
		}
	case reflect.Slice:
		list, _ := raw.([]any)
		for i, one := range list {
			faults = check(faults, one, t.Elem(), fmt.Sprintf("%s[%d]", path, i))
		}
	}
	return faults
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "::" + name
}

// number reports whether a value is a number other than 0, which needs no unit.
func number(raw any) (text string, is bool) {
	text = strings.TrimSpace(fmt.Sprint(raw))
	n, err := strconv.ParseFloat(text, 64)
	return text, err == nil && n != 0
}

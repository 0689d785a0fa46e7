package doctor

import (
	"errors"
	"testing"
	"time"

	"github.com/yekbar-go/yekbar"
)

func TestBroker(t *testing.T) {
	for name, test := range map[string]struct {
		b    Broker
		want Level
	}{
		"as long":            {Broker{Redelivery: time.Hour, Retention: time.Hour}, OK},
		"longer":             {Broker{Redelivery: 2 * time.Hour, Retention: time.Hour}, Problem},
		"unlimited":          {Broker{Retention: time.Hour}, Warning},
		"kept for ever":      {Broker{Retention: yekbar.KeepForever}, OK},
		"away":               {Broker{Err: errors.New("away"), Redelivery: time.Hour, Retention: time.Hour}, Problem},
		"other subscription": {Broker{Redelivery: time.Hour, Retention: time.Hour, Registered: "a", Subscription: "b"}, Problem},
	} {
		e := &examination{Patient: Patient{Broker: &test.b}}
		e.broker()
		if got := Worst(e.findings); got != test.want {
			t.Errorf("%s: %s, want %s: %+v", name, got, test.want, e.findings)
		}
		for _, f := range e.findings {
			if f.Level != OK && f.Mend == "" || f.Level == OK && f.Mend != "" {
				t.Errorf("%s: %+v: a mend goes with what is wrong", name, f)
			}
		}
	}
}

func TestHours(t *testing.T) {
	for d, want := range map[time.Duration]string{720 * time.Hour: "720h", 90 * time.Minute: "1h30m", 90 * time.Second: "1m30s", time.Hour + 10*time.Second: "1h0m10s"} {
		if got := hours(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

func TestSizes(t *testing.T) {
	for n, want := range map[int64]string{0: "0 bytes", 1023: "1023 bytes", 1536: "1.5 KiB", 5 << 30: "5.0 GiB"} {
		if got := bytesText(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

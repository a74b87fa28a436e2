package batch

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
)

// manyMissed is the number of missed starts above which a CronJob gets a warning.
const manyMissed = 100

// requeueDelay is added to the time of the next start, so that a sync does not come too early when clocks differ slightly.
const requeueDelay = 100 * time.Millisecond

// parseSchedule returns the schedule of a CronJob in its time zone. A schedule may itself name a zone (TZ=…): then
// spec.timeZone is ignored.
func parseSchedule(spec *batchv1.CronJobSpec) (s cron.Schedule, err error) {
	defer func() {
		if problem := recover(); problem != nil { // the parser panics on a zone without a schedule
			s, err = nil, fmt.Errorf("invalid schedule format: %v", problem)
		}
	}()
	s, err = cron.ParseStandard(spec.Schedule)
	if fields, ok := s.(*cron.SpecSchedule); ok && spec.TimeZone != nil && !strings.Contains(spec.Schedule, "TZ") {
		if zone, err := location(*spec.TimeZone); err == nil {
			fields.Location = zone
		}
	}
	return s, err
}

// locations are the time zones that were loaded, by name. To read one from its file takes as long as a write of a Job.
var locations sync.Map

// location is time.LoadLocation, which reads each zone once.
func location(name string) (*time.Location, error) {
	if zone, ok := locations.Load(name); ok {
		return zone.(*time.Location), nil
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, err
	}
	locations.Store(name, zone)
	return zone, nil
}

// starts are the start times of a CronJob that are past.
type starts struct {
	since  time.Time // start times after this are counted
	latest time.Time // the latest start time; zero if there is none
	missed int64     // about how many there are besides the first; 0 if there is at most one
}

var errDegenerate = errors.New("time difference between two schedules is less than 1 second")

// pastStarts returns the start times since the last start, or since the creation, until now. If bounded, those before
// startingDeadlineSeconds ago are left out.
func pastStarts(c *batchv1.CronJob, s cron.Schedule, now time.Time, bounded bool) (starts, error) {
	past := starts{since: c.CreationTimestamp.Time}
	if last := c.Status.LastScheduleTime; last != nil {
		past.since = last.Time
	}
	if deadline := c.Spec.StartingDeadlineSeconds; bounded && deadline != nil {
		if from := now.Add(-time.Duration(*deadline) * time.Second); from.After(past.since) {
			past.since = from
		}
	}
	first := s.Next(past.since)
	second := s.Next(first)
	switch {
	case now.Before(first):
		return past, nil
	case now.Before(second):
		past.latest = first
		return past, nil
	}
	interval := int64(second.Sub(first).Round(time.Second).Seconds())
	if interval < 1 { // a date that never comes, such as February 31st
		return past, errDegenerate
	}
	past.missed = int64(now.Sub(first).Seconds())/interval + 1
	// Intervals may differ: the search begins two intervals before the end, and not at the first start, which may be years ago.
	for t := s.Next(first.Add(time.Duration((past.missed-2)*interval) * time.Second)); !t.After(now); t = s.Next(t) {
		past.latest = t
	}
	return past, nil
}

// untilNext returns the time until the sync for the next start.
func untilNext(c *batchv1.CronJob, s cron.Schedule, now time.Time) time.Duration {
	past, err := pastStarts(c, s, now, false)
	after := past.latest
	switch {
	case err != nil, past.latest.IsZero() && past.missed > 0:
		after = now
	case past.latest.IsZero():
		after = past.since
	}
	return max(s.Next(after).Add(requeueDelay).Sub(now), time.Millisecond)
}

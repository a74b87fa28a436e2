package objects

// WithFewMistyped is withFewMistyped for tests.
var WithFewMistyped = withFewMistyped

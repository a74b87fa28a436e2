package objects

// Group describes a compiled-in API group. The priorities are those of its APIServices.
type Group struct {
	Name     string // "" for core
	Priority int32  // groupPriorityMinimum: discovery lists the group with the greatest first
	Versions []GroupVersion
}

// GroupVersion is a version of a Group. Versions of the group that are not listed have priority 1.
type GroupVersion struct {
	Version  string
	Priority int32 // versionPriority: discovery lists the version with the greatest first
}

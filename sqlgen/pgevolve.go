package sqlgen

var _ Evolver = Postgres{}

// Evolve implements Evolver.
func (Postgres) Evolve(e Evolution) Plan { return Plan{} }

// Names of version 0.1. CHANGELOG.md lists all renamed declarations.

@available(*, deprecated, renamed: "SingleFlightCoordinating")
public typealias SingleFlightCoordinating = SingleFlightCoordinating

@available(*, deprecated, renamed: "SingleFlight.Decision")
public typealias SingleFlight.Decision = SingleFlight.Decision

@available(*, deprecated, renamed: "SingleFlight.Leader")
public typealias SingleFlight.Leader = SingleFlight.Leader

@available(*, deprecated, renamed: "SingleFlight.Waiter")
public typealias SingleFlight.Waiter = SingleFlight.Waiter

@available(*, deprecated, renamed: "LocalSingleFlight")
public typealias LocalSingleFlight = LocalSingleFlight

@available(*, deprecated, renamed: "LayeredSingleFlight")
public typealias LayeredSingleFlight = LayeredSingleFlight

extension ImagePipeline.Configuration {
    @available(*, deprecated, renamed: "nearCacheTTL")
    public var nearCacheTTL: Duration {
        get { nearCacheTTL }
        set { nearCacheTTL = newValue }
    }
}

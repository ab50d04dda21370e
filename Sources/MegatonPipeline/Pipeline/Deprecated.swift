// Names of version 0.1. CHANGELOG.md lists all renamed declarations.

@available(*, deprecated, renamed: "SingleFlightCoordinating")
public typealias FlightCoordinating = SingleFlightCoordinating

@available(*, deprecated, renamed: "SingleFlight.Decision")
public typealias FlightDecision = SingleFlight.Decision

@available(*, deprecated, renamed: "SingleFlight.Leader")
public typealias FlightLead = SingleFlight.Leader

@available(*, deprecated, renamed: "SingleFlight.Waiter")
public typealias FlightWait = SingleFlight.Waiter

@available(*, deprecated, renamed: "LocalSingleFlight")
public typealias LocalFlights = LocalSingleFlight

@available(*, deprecated, renamed: "LayeredSingleFlight")
public typealias LayeredFlights = LayeredSingleFlight

@available(*, deprecated, renamed: "FetchLimiting")
public typealias OriginGating = FetchLimiting

@available(*, deprecated, renamed: "FetchPermit")
public typealias OriginPass = FetchPermit

@available(*, deprecated, renamed: "UnlimitedFetches")
public typealias OpenGate = UnlimitedFetches

extension ImagePipeline.Configuration {
    @available(*, deprecated, renamed: "fetchLimiter")
    public var originGate: any FetchLimiting {
        get { fetchLimiter }
        set { fetchLimiter = newValue }
    }

    @available(*, deprecated, renamed: "nearCacheTTL")
    public var dataCacheTrust: Duration {
        get { nearCacheTTL }
        set { nearCacheTTL = newValue }
    }
}

extension PipelineMetrics.Counts {
    @available(*, deprecated, renamed: "planarFallbacks")
    public var rendersLeftByPlanes: Int {
        get { planarFallbacks }
        set { planarFallbacks = newValue }
    }
}

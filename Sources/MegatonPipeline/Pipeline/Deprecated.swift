// Names of version 0.1. CHANGELOG.md lists all renamed declarations.

extension ImagePipeline.Configuration {
    /// Old name of `nearCacheTTL`.
    @available(*, deprecated, renamed: "nearCacheTTL")
    public var dataCacheTrust: Duration {
        get { nearCacheTTL }
        set { nearCacheTTL = newValue }
    }
}

extension PipelineMetrics.Counts {
    /// Old name of `planarFallbacks`.
    @available(*, deprecated, message: "It is no longer public; megaton stats shows it as planar_fallbacks.")
    public var rendersLeftByPlanes: Int {
        get { planarFallbacks }
        set { planarFallbacks = newValue }
    }
}

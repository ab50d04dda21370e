// Names of version 0.1. CHANGELOG.md lists all renamed declarations.

extension ImagePipeline.Configuration {
    /// Old name of `nearCacheTTL`.
    @available(*, deprecated, renamed: "nearCacheTTL")
    public var dataCacheTrust: Duration {
        get { nearCacheTTL }
        set { nearCacheTTL = newValue }
    }
}

internal import Foundation
package import MegatonCluster
internal import MegatonPipeline

/// Serves images by URLs in the grammar of imgproxy: the rules of the operator, and the renditions behind them.
package struct ImageServer: Sendable {
    package struct Configuration: Sendable {
        package var settings: ImageURLSettings
        /// Seconds for which caches use an image whose origin states no lifetime.
        package var maximumAge = 3600
        /// Images that are loaded or rendered at a time; requests for further ones are refused at once.
        package var limit = 256
        /// Bytes of the images that are sent at a time; further ones are refused.
        package var sendingLimit = 512 << 20
        /// Limits the requests of each client; nil for no limit.
        package var rate: ClientRate?
        /// Proxies whose `X-Forwarded-For` names the client.
        package var proxies: [AddressRange] = []
        /// Takes the place of an image that cannot be loaded or read; nil for a problem document.
        package var fallback: FallbackImage?

        package init(_ settings: ImageURLSettings) { self.settings = settings }
    }

    let configuration: Configuration
    private let renditions: RenditionService
    private let places: ImagePlaces
    private let metrics = ImageMetrics()

    package init(_ configuration: Configuration, renditions: RenditionService) {
        self.configuration = configuration
        self.renditions = renditions
        places = ImagePlaces(configuration.limit)
    }

    /// Sets the metrics that describe the state now; called before they are read.
    func updateGauges() {
        renditions.updateGauges()
        metrics.set(places)
    }

    /// The routes, whose requests share one limit.
    var routes: ImageRoutes {
        ImageRoutes(
            configuration,
            places: places,
            metrics: metrics,
            isReady: { [renditions] in renditions.isConnected },
            render: { [renditions] (rendition, url) async throws(RenditionError) -> RenderedImage in
                RenderedImage(try await renditions.rendition(rendition, of: url))
            }
        )
    }

    /// Runs the background tasks of the renditions until the task is cancelled.
    func run() async { await renditions.run() }

    /// Ends work that outlives its requests; called when all requests have ended, before ``run()`` is cancelled.
    func finish() async { await renditions.finish(within: Self.finishLimit) }

    /// How long originals may be stored after the last request.
    private static let finishLimit: Duration = .seconds(5)
}

package import Foundation

/// Grants every permit: for a pipeline without host limits.
package struct UnlimitedFetches: FetchLimiting {
    package init() {}

    package func acquire(for url: URL) async throws(ImageError) -> FetchPermit {
        FetchPermit(host: url.host() ?? "", token: nil)
    }

    package func release(_ permit: FetchPermit, outcome: OriginOutcome) async {}
}

internal import Foundation
internal import MegatonPipeline
import Synchronization

/// Limits the number of images that are looked up, loaded or rendered at a time. Requests for one image share a place,
/// as they share its fetch and its render: many clients may wait for an image that is in no cache.
final class ImagePlaces: Sendable {
    struct Key: Hashable, Sendable {
        let rendition: Rendition
        let source: URL
    }

    /// A request, which leaves when its last reference has gone.
    final class Place: Sendable {
        private let places: ImagePlaces
        private let key: Key
        private let request: RequestLimit.Place

        fileprivate init(_ places: ImagePlaces, _ key: Key, _ request: RequestLimit.Place) {
            (self.places, self.key, self.request) = (places, key, request)
        }

        deinit { places.leave(key) }
    }

    private struct Image {
        let place: RequestLimit.Place
        var requests = 1
    }

    private let images: RequestLimit
    /// Of all images together: waiting requests hold connections.
    private let requests: RequestLimit
    private let current = Mutex<[Key: Image]>([:])

    /// Multiple of the number of images that may wait for them.
    static let requestsPerImage = 4

    /// - Parameter maximum: number of images.
    init(_ maximum: Int) {
        images = RequestLimit(maximum, of: "different images")
        requests = RequestLimit(maximum * Self.requestsPerImage, of: "requests for images")
    }

    /// Number of images that may have a place.
    var maximum: Int { images.maximum }
    /// Images that have a place now.
    var imageCount: Int { images.count }
    /// Requests that wait for them now.
    var requestCount: Int { requests.count }

    /// Takes a place for a request.
    ///
    /// - Throws: an error with the status 503 if there is none.
    func enter(_ key: Key) throws(APIError) -> Place {
        let request = try requests.enter()
        let refusal = current.withLock { current -> APIError? in
            if current[key] != nil {
                current[key]?.requests += 1
                return nil
            }
            do throws(APIError) {
                current[key] = Image(place: try images.enter())
                return nil
            } catch {
                return error
            }
        }
        if let refusal { throw refusal }
        return Place(self, key, request)
    }

    private func leave(_ key: Key) {
        current.withLock { current in
            current[key]?.requests -= 1
            if current[key]?.requests == 0 { current[key] = nil }
        }
    }
}

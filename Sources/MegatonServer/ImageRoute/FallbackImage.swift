package import Foundation
internal import Hummingbird
internal import HummingbirdCore
internal import MegatonPipeline
internal import NIOCore

/// The image that is sent in the place of one that could not be loaded or read.
package struct FallbackImage: Sendable, Equatable {
    private let data: Data
    private let mediaType: String

    /// Maximum size, bytes.
    package static let maximumSize = 4 << 20
    /// SVG is none of them: it can contain scripts.
    private static let types: [AssetType] = [.jpeg, .png, .webp, .avif, .gif]

    /// - Parameter data: content of the file.
    package init(_ data: Data) throws(ImageSettingsError) {
        if data.count > Self.maximumSize {
            throw ImageSettingsError("has more than \(Self.maximumSize >> 20) MiB, which is the limit")
        }
        guard let type = AssetType(data), Self.types.contains(type) else {
            let allowed = Self.types.map(\.description).joined(separator: ", ")
            throw ImageSettingsError("is not an image of these types: \(allowed)")
        }
        self.data = data
        mediaType = type.mediaType
    }

    /// The image with the status of the failure, so that caches and monitoring do not take it for the requested one.
    ///
    /// - Parameter eventLoop: of the connection.
    func response(to failure: ImageFailure, on eventLoop: any EventLoop) -> Response {
        Response(
            status: failure.status,
            headers: [
                .contentType: mediaType, .cacheControl: "no-store", .xContentTypeOptions: "nosniff",
            ],
            body: ImageSender.sharedBody(data, on: eventLoop)
        )
    }
}

internal import Hummingbird
internal import HummingbirdCore
internal import NIOCore

/// The description of all routes for programs, in the format of OpenAPI 3.1.
enum APIDocument {
    static let path = "/api/v1/openapi.json"

    static let json = PackageResources.openapi_json

    static func response() -> Response {
        APIResponse.json(bytes: ByteBuffer(bytes: json))
    }
}

internal import Hummingbird
internal import HummingbirdCore
internal import NIOCore

/// The files of the page. They are open to all, as they have no data: the page asks for a token, and sends it to the
/// API.
enum DashboardPage {
    /// A file of the page.
    struct File: Sendable {
        let path: String
        let type: String
        let bytes: [UInt8]
    }

    static let files = [
        File(path: "/", type: "text/html; charset=utf-8", bytes: PackageResources.dashboard_html),
        File(path: "/dashboard.css", type: "text/css; charset=utf-8", bytes: PackageResources.dashboard_css),
        script("/dashboard.js", PackageResources.dashboard_js),
        // The modules that it imports.
        script("/elements.js", PackageResources.elements_js),
        script("/sections.js", PackageResources.sections_js),
        script("/thumbnails.js", PackageResources.thumbnails_js),
    ]

    private static func script(_ path: String, _ bytes: [UInt8]) -> File {
        File(path: path, type: "text/javascript; charset=utf-8", bytes: bytes)
    }

    /// The page loads nothing from elsewhere, has no script or style of its own, and is shown in no other page: sources
    /// of jobs are texts of strangers.
    static let policy =
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        + "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"

    static func add(to router: Router<ServerContext>) {
        for file in files {
            router.get(RouterPath(file.path)) { (_, _) -> Response in response(file) }
        }
    }

    static func response(_ file: File) -> Response {
        var headers: HTTPFields = [.contentType: file.type, .cacheControl: "no-cache"]
        headers.set("Content-Security-Policy", policy)
        headers.set("X-Content-Type-Options", "nosniff")
        headers.set("X-Frame-Options", "DENY")
        headers.set("Referrer-Policy", "no-referrer")
        headers.set("Cross-Origin-Opener-Policy", "same-origin")
        headers.set("Cross-Origin-Resource-Policy", "same-origin")
        return Response(
            status: .ok,
            headers: headers,
            body: ResponseBody(byteBuffer: ByteBuffer(bytes: file.bytes))
        )
    }
}

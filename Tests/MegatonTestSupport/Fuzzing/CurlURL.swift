/// libcurl's own parse of a URL, with the flags of `CURLOPT_URL`; nil if libcurl rejects it.
///
/// The functions are declared here: if a module imports libcurl's headers beside Foundation, the socket constants are
/// no longer found in its other files. The numbers are part of libcurl's ABI (curl/urlapi.h).
final class CurlURL {
    enum Part: UInt32 {
        case url, scheme, user, password, options, host, port
    }

    private static let defaultPort: UInt32 = 1 << 0
    private static let anyScheme: UInt32 = 1 << 3
    private static let guessScheme: UInt32 = 1 << 9

    private let handle: OpaquePointer

    init?(_ text: String) {
        guard let handle = newCurlURL() else { return nil }
        guard setPart(handle, Part.url.rawValue, text, Self.anyScheme | Self.guessScheme) == 0 else {
            freeCurlURL(handle)
            return nil
        }
        self.handle = handle
    }

    deinit { freeCurlURL(handle) }

    subscript(part: Part) -> String? {
        var value: UnsafeMutablePointer<CChar>?
        let flags = part == .port ? Self.defaultPort : 0
        guard getPart(handle, part.rawValue, &value, flags) == 0, let value else { return nil }
        defer { freeText(value) }
        return String(cString: value)
    }
}

@_silgen_name("curl_url") private func newCurlURL() -> OpaquePointer?

@_silgen_name("curl_url_cleanup") private func freeCurlURL(_ handle: OpaquePointer)

@_silgen_name("curl_url_set")
private func setPart(_ handle: OpaquePointer, _ part: UInt32, _ text: UnsafePointer<CChar>, _ flags: UInt32) -> UInt32

@_silgen_name("curl_url_get")
private func getPart(
    _ handle: OpaquePointer,
    _ part: UInt32,
    _ text: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>,
    _ flags: UInt32
) -> UInt32

@_silgen_name("curl_free") private func freeText(_ text: UnsafeMutablePointer<CChar>)

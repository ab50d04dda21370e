import Foundation
import MegatonPipeline

extension HTTPCacheCase {
    private static let fresh = [("Cache-Control", "max-age=3600")]

    private static func vary(_ names: String) -> [(String, String)] { fresh + [("Vary", names)] }

    /// RFC 9111 section 4.1: a field that the response does not name selects nothing.
    static let variants: [HTTPCacheCase] = [
        HTTPCacheCase(
            "fields that the response does not name",
            [
                .init(request: [("X-Trace", "1"), ("Accept", "a")], response: fresh, source: .origin),
                .init(request: [("X-Trace", "2")], source: .cache(of: 0), expected: ["Cache-Control": "max-age=3600"]),
                .init(source: .cache(of: 0)),
                .init(request: [("X-Trace", "3"), ("Accept", "b")], source: .cache(of: 0)),
            ]
        ),
        HTTPCacheCase(
            "fields of a later request",
            [
                .init(response: [("Cache-Control", "public, max-age=60")], source: .origin),
                .init(request: [("X-Trace", "2")], source: .cache(of: 0)),
            ]
        ),
        HTTPCacheCase(
            "the same again",
            [
                .init(request: [("Foo", "1")], response: vary("Foo"), source: .origin),
                .init(request: [("Foo", "1")], source: .cache(of: 0)),
            ]
        ),
        HTTPCacheCase(
            "two variants, and one of those who send nothing",
            [
                .init(request: [("Foo", "1")], response: vary("Foo"), source: .origin),
                .init(request: [("Foo", "2")], response: vary("Foo"), source: .origin),
                .init(response: vary("Foo"), source: .origin), .init(request: [("Foo", "1")], source: .cache(of: 0)),
                .init(request: [("Foo", "2")], source: .cache(of: 1)), .init(source: .cache(of: 2)),
            ]
        ),
        HTTPCacheCase(
            "a variant, and fields that choose nothing",
            [
                .init(request: [("Foo", "1"), ("Other", "2")], response: vary("Foo"), source: .origin),
                .init(request: [("Foo", "1"), ("Other", "3")], source: .cache(of: 0)),
                .init(request: [("Foo", "2"), ("Other", "2")], response: vary("Foo"), source: .origin),
                .init(request: [("Foo", "2"), ("Other", "9")], source: .cache(of: 2)),
                .init(request: [("Foo", "1")], source: .cache(of: 0)),
            ]
        ),
        HTTPCacheCase(
            "three fields",
            [
                .init(request: [("A", "1"), ("B", "2")], response: vary("A, B, C"), source: .origin),
                .init(request: [("B", "2"), ("A", "1")], source: .cache(of: 0)),
                .init(request: [("A", "1"), ("B", "2"), ("C", "3")], response: vary("A, B, C"), source: .origin),
                .init(request: [("A", "1")], response: vary("A, B, C"), source: .origin),
            ]
        ),
        HTTPCacheCase(
            "blanks",
            [
                .init(request: [("Foo", "1,2")], response: vary("foo"), source: .origin),
                .init(request: [("Foo", " 1 , 2")], source: .cache(of: 0)),
                .init(request: [("foo", "1"), ("foo", "2")], source: .cache(of: 0)),
            ]
        ),
        HTTPCacheCase(
            "everything",
            [
                .init(request: [("Foo", "1")], response: vary("*"), source: .origin),
                .init(request: [("Foo", "1")], response: vary("Foo, *"), source: .origin),
                .init(request: [("Foo", "1")], response: vary("*"), source: .origin),
            ]
        ),
        HTTPCacheCase(
            "a stale variant is asked about",
            [
                .init(
                    request: [("Foo", "1")],
                    response: [("Cache-Control", "no-cache"), ("ETag", "\"a\"")],
                    source: .origin
                ),
                .init(
                    request: [("Foo", "1")],
                    response: [("Cache-Control", "no-cache"), ("ETag", "\"a\"")],
                    source: .confirmed(of: 0)
                ),
                .init(
                    request: [("Foo", "2")],
                    response: [("Cache-Control", "no-cache"), ("ETag", "\"a\"")],
                    source: .confirmed(of: 0)
                ),
            ]
        ),
        HTTPCacheCase(
            "a failure is for its caller only",
            [
                .init(request: [("Referer", "http://a")], status: 403, source: .failure(.accessDenied)),
                .init(request: [("Referer", "http://b")], response: fresh, source: .origin),
            ]
        ),
        HTTPCacheCase(
            "keys by another name",
            [
                .init(request: [("X-Api-Key", "1")], response: fresh, source: .origin),
                .init(request: [("X-Api-Key", "2")], response: fresh, source: .origin),
                .init(response: fresh, source: .origin),
                .init(request: [("X-Api-Key", "1"), ("X-Trace", "1")], source: .cache(of: 0)),
            ]
        ),
    ]

    private static func invalidated(by method: String) -> HTTPCacheCase {
        HTTPCacheCase(
            method,
            [
                .init(response: fresh, source: .origin), .init(source: .cache(of: 0)),
                .init(method: method, response: fresh, source: .origin),
                .init(method: method, response: fresh, source: .origin), .init(response: fresh, source: .origin),
                .init(source: .cache(of: 4)),
                .init(method: method, status: 500, source: .failure(.httpStatus)), .init(source: .cache(of: 4)),
                .init(method: method, status: 204, body: Data(), source: .origin, expectedStatus: 204),
                .init(response: fresh, source: .origin),
            ]
        )
    }

    /// Fault: variants for other header fields were found again, as soon as one of them was stored anew.
    private static let invalidatedVariants = HTTPCacheCase(
        "variants",
        [
            .init(request: [("Foo", "1")], response: vary("Foo"), source: .origin),
            .init(request: [("Foo", "2")], response: vary("Foo"), source: .origin),
            .init(request: [("Foo", "2")], source: .cache(of: 1)),
            .init(method: "PUT", response: fresh, source: .origin),
            .init(request: [("Foo", "1")], response: vary("Foo"), source: .origin),
            .init(request: [("Foo", "2")], response: vary("Foo"), source: .origin),
            .init(request: [("Foo", "1")], source: .cache(of: 4)),
            .init(request: [("Foo", "2")], source: .cache(of: 5)),
            .init(method: "PUT", response: fresh, source: .origin),
            .init(response: vary("Foo"), source: .origin),
            .init(request: [("Foo", "2")], response: vary("Foo"), source: .origin),
            .init(source: .cache(of: 9)),
            .init(request: [("Foo", "2")], source: .cache(of: 10)),
        ]
    )

    private static func invalidated(naming field: String) -> HTTPCacheCase {
        HTTPCacheCase(
            field,
            [
                .init(path: "/b", response: fresh, source: .origin),
                .init(path: "/c", response: fresh, source: .origin),
                .init(
                    method: "POST",
                    path: "/a",
                    status: 201,
                    response: [(field, "b"), ("X-Made", "1")],
                    source: .origin,
                    expectedStatus: 201,
                    expected: ["X-Made": "1"]
                ),
                .init(path: "/b", response: fresh, source: .origin), .init(path: "/c", source: .cache(of: 1)),
                .init(
                    method: "POST",
                    path: "/a",
                    status: 201,
                    response: [(field, "http://example.com/c")],
                    source: .origin,
                    expectedStatus: 201
                ),
                .init(path: "/c", source: .cache(of: 1)),
            ]
        )
    }

    /// RFC 9111 sections 4 and 4.4.
    static let unsafeMethods: [HTTPCacheCase] =
        ["POST", "PUT", "DELETE", "PATCH", "M-SEARCH"].map { invalidated(by: $0) }
        + ["Location", "Content-Location"].map { invalidated(naming: $0) } + [
            invalidatedVariants,
            HTTPCacheCase(
                "HEAD",
                [
                    .init(response: fresh, source: .origin),
                    .init(method: "HEAD", response: fresh, body: Data(), source: .origin),
                    .init(source: .cache(of: 0)),
                ]
            ),
        ]

    private static let size = image(1).count

    /// Bytes of the body stored by exchange 1.
    private static func part(_ first: Int, _ end: Int) -> Source { .part(of: 1, first..<end) }

    /// A part or a 304 is only for the caller that asked for it.
    static let requestsOfOneCaller: [HTTPCacheCase] = [
        HTTPCacheCase(
            "a range",
            [
                .init(
                    request: [("Range", "bytes=0-1")],
                    status: 206,
                    response: fresh + [("Content-Range", "bytes 0-1/10")],
                    body: Data("01".utf8),
                    source: .origin,
                    expectedStatus: 206,
                    expected: ["Content-Range": "bytes 0-1/10"]
                ),
                .init(response: fresh + [("ETag", "\"a\"")], source: .origin),
                .init(
                    request: [("Range", "bytes=0-1")],
                    source: part(0, 2),
                    expectedStatus: 206,
                    expected: ["Content-Range": "bytes 0-1/\(size)", "Content-Length": "2"]
                ),
                .init(
                    request: [("Range", "bytes=-5")],
                    source: part(size - 5, size),
                    expectedStatus: 206
                ),
                .init(request: [("Range", "bytes=9-")], source: part(9, size), expectedStatus: 206),
                .init(
                    request: [("Range", "bytes=9-9223372036854775807")],
                    source: part(9, size),
                    expectedStatus: 206
                ),
                .init(
                    request: [("Range", "bytes=2-4"), ("If-Range", "\"a\"")],
                    source: part(2, 5),
                    expectedStatus: 206
                ),
                .init(request: [("Range", "bytes=2-4"), ("If-Range", "\"b\"")], source: .cache(of: 1)),
                .init(request: [("Range", "lines=2-4")], source: .cache(of: 1)),
                .init(request: [("Range", "bytes=99999-")], status: 416, source: .failure(.httpStatus)),
                .init(source: .cache(of: 1)),
            ]
        ),
        HTTPCacheCase(
            "a range that fails",
            [
                .init(request: [("Range", "bytes=90-")], status: 416, source: .failure(.httpStatus)),
                .init(response: fresh, source: .origin),
            ]
        ),
        HTTPCacheCase(
            "a condition that does not hold",
            [
                .init(
                    request: [("If-None-Match", "\"a\"")],
                    response: fresh + [("ETag", "\"a\"")],
                    source: .origin,
                    expectedStatus: 304,
                    expected: ["ETag": "\"a\""]
                ),
                .init(response: fresh + [("ETag", "\"a\"")], source: .origin),
                .init(request: [("If-None-Match", "\"b\"")], source: .cache(of: 1), expected: ["ETag": "\"a\""]),
                .init(
                    request: [("If-None-Match", "\"b\", W/\"a\""), ("If-Modified-Since", date(-9e8))],
                    source: part(0, 0),
                    expectedStatus: 304,
                    expected: ["ETag": "\"a\""]
                ),
                .init(source: .cache(of: 1)),
            ]
        ),
        HTTPCacheCase(
            "a date",
            [
                .init(
                    request: [("If-Modified-Since", "Wed, 21 Oct 2015 07:28:00 GMT")],
                    response: [("Last-Modified", "Wed, 21 Oct 2015 07:28:00 GMT")],
                    source: .origin,
                    expectedStatus: 304
                ),
                .init(response: [("Last-Modified", "Wed, 21 Oct 2015 07:28:00 GMT")], source: .origin),
            ]
        ),
        HTTPCacheCase(
            "a precondition",
            [
                .init(request: [("If-Match", "\"a\"")], status: 412, source: .failure(.httpStatus)),
                .init(response: fresh, source: .origin),
                .init(request: [("If-Unmodified-Since", date(-9000))], status: 412, source: .failure(.httpStatus)),
                .init(source: .cache(of: 1)),
            ]
        ),
    ]

    /// RFC 9111 section 4.2.4 and RFC 5861.
    static let staleEntries: [HTTPCacheCase] = [
        HTTPCacheCase(
            "stale-while-revalidate",
            [
                .init(
                    response: [
                        ("Cache-Control", "max-age=10, stale-while-revalidate=600"), ("Age", "20"), ("ETag", "\"a\""),
                    ],
                    source: .origin
                ),
                .init(
                    response: [("Cache-Control", "max-age=60"), ("ETag", "\"a\"")],
                    source: .cache(of: 0),
                    age: 20,
                    finalRequests: 2
                ),
            ]
        ),
        HTTPCacheCase(
            "beyond stale-while-revalidate",
            [
                .init(
                    response: [
                        ("Cache-Control", "max-age=10, stale-while-revalidate=5"), ("Age", "20"), ("ETag", "\"a\""),
                    ],
                    source: .origin
                ), .init(response: fresh + [("ETag", "\"a\"")], source: .confirmed(of: 0)),
            ]
        ),
        HTTPCacheCase(
            "stale-if-error",
            [
                .init(
                    response: [("Cache-Control", "max-age=10, stale-if-error=600"), ("Age", "20")],
                    source: .origin
                ),
                .init(status: 503, source: .cache(of: 0), finalRequests: 2),
            ]
        ),
        HTTPCacheCase(
            "no stale entry where it must be asked about",
            [
                .init(
                    response: [("Cache-Control", "max-age=10, must-revalidate, stale-if-error=600"), ("Age", "20")],
                    source: .origin
                ),
                .init(status: 503, source: .failure(.httpStatus)),
            ]
        ),
    ]
}

import Foundation
import MegatonPipeline

extension HTTPCacheCase {
    /// Two requests for a resource with these response fields.
    private static func twice(_ fields: [(String, String)], _ source: Source) -> HTTPCacheCase {
        HTTPCacheCase(
            fields.map { "\($0.0): \($0.1)" }.joined(separator: "; "),
            [.init(response: fields, source: .origin), .init(response: fields, source: source)]
        )
    }

    /// RFC 9111 sections 4.2 and 5.2, and parsing of the fields.
    static let freshness: [HTTPCacheCase] = [
        twice([("Cache-Control", "max-age=3600")], .cache(of: 0)),
        twice([("Cache-Control", "max-age=0")], .origin),
        twice([("Cache-Control", "max-age=0, s-maxage=60")], .cache(of: 0)),
        twice([("Cache-Control", "max-age=60, s-maxage=0")], .origin),
        twice([("Cache-Control", "MAX-AGE=60")], .cache(of: 0)),
        twice([("Cache-Control", "max-age=\"60\"")], .cache(of: 0)),
        twice([("Cache-Control", "max-age=060")], .cache(of: 0)),
        twice([("Cache-Control", "max-age=99999999999999999999")], .cache(of: 0)),
        twice([("Cache-Control", "max-age=0, max-age=60")], .origin),
        twice([("Cache-Control", "max-age=-1")], .origin), twice([("Cache-Control", "max-age=1.5")], .origin),
        twice([("Cache-Control", "max-age=a60")], .origin), twice([("Cache-Control", "max-age='60'")], .origin),
        twice([("Cache-Control", "max-age = 60")], .origin), twice([("Cache-Control", "max-age")], .origin),
        twice([("Cache-Control", "x=\"no-store, max-age=0\", max-age=60")], .cache(of: 0)),
        twice([("Cache-Control", "x=\"max-age=60\", max-age=0")], .origin),
        twice([("Cache-Control", "public"), ("Cache-Control", "max-age=0")], .origin),
        twice([("Cache-Control", "max-age=60"), ("Expires", "0")], .cache(of: 0)),
        twice([("Cache-Control", "max-age=0"), ("Expires", date(3600))], .origin),
        twice([("Expires", date(3600)), ("Date", date(0))], .cache(of: 0)),
        twice([("Expires", date(-3600)), ("Date", date(0))], .origin), twice([("Expires", "0")], .origin),
        twice([("Expires", "tomorrow")], .origin), twice([("Expires", date(0)), ("Date", date(0))], .origin),
        twice([("Expires", date(3600)), ("Date", date(-7200))], .cache(of: 0)),
        twice([("Expires", "Thu, 18 Aug 2050 02:01:18 UTC")], .origin),
        twice([("Expires", "Thursday, 18-Aug-50 02:01:18 GMT")], .cache(of: 0)),
        twice([("Cache-Control", "max-age=60"), ("Age", "61")], .origin),
        twice([("Cache-Control", "max-age=60"), ("Age", "0061")], .origin),
        twice([("Cache-Control", "max-age=60"), ("Age", "-61")], .cache(of: 0)),
        twice([("Cache-Control", "max-age=60"), ("Age", "61.5")], .cache(of: 0)),
        twice([("Cache-Control", "max-age=60"), ("Age", "61, 0")], .origin),
        twice([("Cache-Control", "max-age=60"), ("Age", "99999999999999999999")], .origin),
        twice([("Cache-Control", "max-age=60"), ("Date", date(-120))], .origin),
        twice([("Cache-Control", "max-age=60"), ("Date", date(3600))], .cache(of: 0)),
        twice([("Pragma", "no-cache"), ("Cache-Control", "max-age=60")], .cache(of: 0)),
    ]

    /// RFC 9111 section 5.2.2.
    static let directives: [HTTPCacheCase] = [
        twice([("Cache-Control", "no-store, max-age=60")], .origin),
        twice([("Cache-Control", "No-StOrE, max-age=60")], .origin),
        twice([("Cache-Control", "no-store, must-understand, max-age=60")], .cache(of: 0)),
        twice([("Cache-Control", "private, max-age=60")], .origin),
        twice([("Cache-Control", "private=\"X-Own\", max-age=60")], .cache(of: 0)),
        twice([("Cache-Control", "no-cache, max-age=60")], .origin),
        twice([("Cache-Control", "no-cache, max-age=60"), ("ETag", "\"a\"")], .confirmed(of: 0)),
        twice([("Cache-Control", "no-cache"), ("Last-Modified", date(-9000))], .confirmed(of: 0)),
        twice([("Cache-Control", "no-cache=\"X-A\", max-age=60"), ("ETag", "\"a\"")], .cache(of: 0)),
        twice([("Cache-Control", "no-cache=\"\", max-age=60"), ("ETag", "\"a\"")], .confirmed(of: 0)),
        twice([("Cache-Control", "max-age=0, must-revalidate"), ("ETag", "\"a\"")], .confirmed(of: 0)),
        twice([("Cache-Control", "max-age=60, must-revalidate"), ("ETag", "\"a\"")], .cache(of: 0)),
        twice([("Cache-Control", "max-age=60, unknown, also=\"this, and that\"")], .cache(of: 0)),
        HTTPCacheCase(
            "a request's directives",
            [
                .init(response: [("Cache-Control", "max-age=60"), ("ETag", "\"a\"")], source: .origin),
                .init(
                    request: [("Cache-Control", "no-cache")],
                    response: [("Cache-Control", "max-age=60"), ("ETag", "\"a\"")],
                    source: .confirmed(of: 0)
                ),
                .init(
                    request: [("Pragma", "no-cache")],
                    response: [("Cache-Control", "max-age=60"), ("ETag", "\"a\"")],
                    source: .confirmed(of: 0)
                ),
                .init(request: [("Cache-Control", "max-age=30")], source: .cache(of: 0)),
            ]
        ),
        HTTPCacheCase(
            "only-if-cached",
            [.init(request: [("Cache-Control", "only-if-cached")], source: .failure(.dataMissingInCache))]
        ),
        HTTPCacheCase(
            "a response to a request with no-store",
            [
                .init(request: [("Cache-Control", "no-store")], source: .origin), .init(source: .origin),
                .init(source: .cache(of: 1)),
            ]
        ),
        HTTPCacheCase(
            "a response to a request with Authorization",
            [
                .init(
                    request: [("Authorization", "Basic YTpi")],
                    response: [("Cache-Control", "max-age=60")],
                    source: .origin
                ),
                .init(request: [("Authorization", "Basic YTpi")], source: .origin), .init(source: .origin),
            ]
        ),
        HTTPCacheCase(
            "a public response to a request with Authorization",
            [
                .init(
                    request: [("Authorization", "Basic YTpi")],
                    response: [("Cache-Control", "public, max-age=60")],
                    source: .origin
                ),
                .init(request: [("Authorization", "Basic YTpi")], source: .cache(of: 0)),
                .init(request: [("Authorization", "Basic Yjpj")], source: .origin), .init(source: .origin),
            ]
        ),
        HTTPCacheCase(
            "a cookie",
            [
                .init(request: [("Cookie", "a=1")], response: [("Cache-Control", "max-age=60")], source: .origin),
                .init(request: [("Cookie", "a=2")], response: [("Cache-Control", "max-age=60")], source: .origin),
                .init(response: [("Cache-Control", "max-age=60")], source: .origin),
                .init(request: [("Cookie", "a=1")], source: .cache(of: 0)),
            ]
        ),
    ]

    private static let fields = [("Cache-Control", "max-age=60"), ("Date", date(-5))]

    /// RFC 9111 sections 3.1, 3.2, 4.3.4 and 5.1.
    static let headerFields: [HTTPCacheCase] = [
        HTTPCacheCase(
            "Age, and what is kept",
            [
                .init(
                    response: fields + [
                        ("Age", "30"), ("X-Test", "one"), ("Content-Type", "image/png"), ("Set-Cookie", "a=b"),
                        ("Connection", "x-hop"), ("X-Hop", "1"), ("Server-Timing", "a;dur=1"), ("ETag", "\"a\""),
                        ("Proxy-Authenticate", "Basic"), ("Last-Modified", date(-9000)), ("Vary", "X-Other"),
                    ],
                    source: .origin
                ),
                .init(
                    source: .cache(of: 0),
                    expected: [
                        "X-Test": "one", "Content-Type": "image/png", "Server-Timing": "a;dur=1", "ETag": "\"a\"",
                        "Vary": "X-Other", "Cache-Control": "max-age=60",
                        "Content-Length": "\(image(0).count)",
                    ],
                    absent: ["Set-Cookie", "X-Hop", "Connection", "Proxy-Authenticate"],
                    age: 30
                ),
            ]
        ),
        HTTPCacheCase(
            "Age of the date alone",
            [.init(response: fields, source: .origin), .init(source: .cache(of: 0), age: 5)]
        ),
        HTTPCacheCase(
            "what no-cache and private name",
            [
                .init(
                    response: [("Cache-Control", "no-cache=\"X-A, X-B\", private=X-C, max-age=60")]
                        + ["X-A", "X-B", "X-C", "X-D"].map { ($0, "1") },
                    source: .origin
                ),
                .init(
                    source: .cache(of: 0),
                    expected: ["X-D": "1"],
                    absent: ["X-A", "X-B", "X-C"]
                ),
            ]
        ),
        HTTPCacheCase(
            "a 304 replaces header fields",
            [
                .init(
                    response: [
                        ("Cache-Control", "max-age=0"), ("ETag", "\"a\""), ("X-Old", "1"), ("X-Both", "1"),
                        ("Content-Type", "image/png"),
                    ],
                    source: .origin
                ),
                .init(
                    response: [
                        ("Cache-Control", "max-age=60"), ("ETag", "\"a\""), ("X-Both", "2"), ("X-New", "2"),
                        ("Content-Type", "image/png;v=2"), ("Set-Cookie", "mine=1"),
                    ],
                    source: .confirmed(of: 0),
                    expected: [
                        "X-Old": "1", "X-Both": "2", "X-New": "2", "Content-Type": "image/png;v=2",
                        "Cache-Control": "max-age=60", "Content-Length": "\(image(0).count)",
                    ]
                ),
                .init(
                    source: .cache(of: 0),
                    expected: [
                        "X-Old": "1", "X-Both": "2", "X-New": "2", "Content-Type": "image/png;v=2",
                    ],
                    absent: ["Set-Cookie"]
                ),
            ]
        ),
        HTTPCacheCase(
            "a response that may be stored after one that must not be",
            [
                .init(response: [("Cache-Control", "no-store")], source: .origin),
                .init(response: [("Cache-Control", "max-age=60")], source: .origin),
                .init(source: .cache(of: 1)),
            ]
        ),
        HTTPCacheCase(
            "a 304 that forbids to keep",
            [
                .init(response: [("Cache-Control", "no-cache"), ("ETag", "\"a\""), ("X-Old", "1")], source: .origin),
                .init(
                    response: [("Cache-Control", "no-store"), ("ETag", "\"a\"")],
                    source: .confirmed(of: 0),
                    expected: ["X-Old": "1"]
                ),
                .init(response: [("ETag", "\"a\"")], source: .origin),
            ]
        ),
        HTTPCacheCase(
            "a type that only the 304 has",
            [
                .init(
                    response: [("Cache-Control", "no-cache"), ("ETag", "\"a\""), ("Content-Type", "image/png")],
                    source: .origin
                ),
                .init(
                    response: [("Cache-Control", "max-age=60"), ("ETag", "\"a\""), ("Content-Type", "text/html")],
                    source: .confirmed(of: 0),
                    expected: ["Content-Type": "image/png"]
                ),
            ]
        ),
        HTTPCacheCase(
            "a policy of 6 KiB",
            [
                .init(
                    response: [
                        ("Cache-Control", "max-age=60"), ("X-Short", "1"),
                        ("Content-Security-Policy", String(repeating: "a", count: 6000)),
                    ],
                    source: .origin
                ),
                .init(
                    source: .cache(of: 0),
                    expected: [
                        "X-Short": "1"
                    ],
                    absent: ["Content-Security-Policy"]
                ),
            ]
        ),
        HTTPCacheCase(
            "203",
            [
                .init(status: 203, response: [("Cache-Control", "max-age=60")], source: .origin, expectedStatus: 203),
                .init(source: .cache(of: 0), expectedStatus: 203),
            ]
        ),
    ]
}

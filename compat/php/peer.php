<?php

// The PHP client behind standard input and output: `php peer.php PORT`.
// One request a line, one answer a line; compat/README.md has the format.

declare(strict_types=1);

$port = (int) $argv[1];
$vendor = getenv('RSMQ_COMPAT_VENDOR') ?: __DIR__ . '/vendor';
if (is_file("{$vendor}/autoload.php")) {
    require "{$vendor}/autoload.php";
}
$real = class_exists(\Islambey\RSMQ\RSMQ::class);
if (!$real) {
    require __DIR__ . '/client.php';
}
$class = $real ? \Islambey\RSMQ\RSMQ::class : \Rsmq\Compat\Client::class;

function connection(int $port): Redis
{
    $redis = new Redis();
    $redis->connect('127.0.0.1', $port);
    return $redis;
}

/** The arguments under Node's names, in the order of PHP's parameters. */
function arguments(string $op, array $args): array
{
    $order = [
        'createQueue' => ['qname', 'vt', 'delay', 'maxsize'],
        'listQueues' => [],
        'setQueueAttributes' => ['qname', 'vt', 'delay', 'maxsize'],
        'changeMessageVisibility' => ['qname', 'id', 'vt'],
        'deleteMessage' => ['qname', 'id'],
    ];
    if (isset($order[$op])) {
        $named = [];
        foreach ($order[$op] as $at => $name) {
            if (array_key_exists($name, $args)) {
                $php = $name === 'maxsize' ? 'maxSize' : $name;
                $named[$at === 0 ? 0 : $php] = $args[$name];
            }
        }
        return $named;
    }
    $options = array_intersect_key($args, ['delay' => 0, 'vt' => 0]);
    return match ($op) {
        'sendMessage' => [$args['qname'], $args['message'], $options],
        'receiveMessage' => [$args['qname'], $options],
        default => [$args['qname']],
    };
}

/** The value as JSON has it. */
function plain(mixed $value): mixed
{
    if (is_array($value)) {
        return array_map('plain', $value);
    }
    if (is_string($value) && !mb_check_encoding($value, 'UTF-8')) {
        return ['$b64' => base64_encode($value)];
    }
    return $value;
}

/** What is published on a channel until nothing has come for a while; a subscriber of its own. */
function listen(int $port, string $channel, callable $ready): array
{
    $heard = [];
    $subscriber = connection($port);
    $subscriber->setOption(Redis::OPT_READ_TIMEOUT, 0.5);
    $ready();
    try {
        $subscriber->subscribe([$channel], function ($redis, $from, $payload) use (&$heard) {
            $heard[] = [$from, $payload];
        });
    } catch (RedisException) {
        // Nothing came for the time of the read timeout.
    }
    return $heard;
}

$redis = connection($port);
$clients = [];
while (($line = fgets(STDIN)) !== false) {
    $request = json_decode($line, true, flags: JSON_THROW_ON_ERROR);
    $op = $request['op'];
    $args = $request['args'] ?? [];
    $ns = $request['ns'] ?? 'rsmq';
    $realtime = (bool) ($request['realtime'] ?? false);
    try {
        if ($op === 'version') {
            $result = $real ? \Composer\InstalledVersions::getPrettyVersion('eislambey/rsmq') : null;
        } elseif ($op === 'forget') {
            unset($clients["{$ns} 0"], $clients["{$ns} 1"]);
            $result = null;
        } elseif ($op === 'listen') {
            $result = listen($port, $args['channel'], function () {
                fwrite(STDOUT, "{\"result\":true}\n");
            });
        } else {
            $key = $ns . ' ' . (int) $realtime;
            $clients[$key] ??= new $class($redis, $ns, $realtime);
            $result = $clients[$key]->{$op}(...arguments($op, $args));
        }
        $answer = ['result' => plain($result)];
    } catch (Throwable $error) {
        $answer = ['error' => ['name' => $error::class, 'message' => $error->getMessage()]];
    }
    fwrite(STDOUT, json_encode($answer, JSON_THROW_ON_ERROR | JSON_UNESCAPED_UNICODE) . "\n");
}
